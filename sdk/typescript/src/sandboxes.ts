// All sandboxes of a server: made, found, listed.
import { AtollError } from './errors.js'
import { Sandbox } from './sandbox.js'
import { seconds, sleep, unlessAborted } from './time.js'
import type { Duration } from './time.js'
import { newIdempotencyKey } from './transport.js'
import type { RequestOptions, Transport } from './transport.js'
import type { WireSandbox, WireSandboxConfig, WireSandboxList } from './wire.js'

export interface Resources {
  /** Such as `512Mi` or `2Gi`. */
  memory?: string | undefined
  /** Cores: `2`, `0.5` or `500m`. */
  cpu?: string | number | undefined
  disk?: string | undefined
}

export interface SandboxSettings {
  /** For every process in it. */
  env?: Record<string, string> | undefined
  /** For whatever you like; `list` finds sandboxes by them. */
  labels?: Record<string, string> | undefined
  /** It is deleted after this long. */
  ttl?: Duration | undefined
  /** It is deleted after this long whatever anybody says. */
  hardTtl?: Duration | undefined
  resources?: Resources | undefined
}

export interface CreateOptions extends SandboxSettings, RequestOptions {
  /** Default `default`. */
  template?: string | undefined
  /** How long to wait for a template that is still being made. Default 10 minutes. */
  templateTimeoutMs?: number | undefined
}

export interface ListOptions extends RequestOptions {
  status?: SandboxStatus | undefined
  template?: string | undefined
  /** Per request; the iterator fetches as many pages as you read. */
  pageSize?: number | undefined
}

export type SandboxStatus = WireSandbox['status']

export interface SandboxInfo {
  readonly id: string
  readonly template: string
  readonly status: SandboxStatus
  readonly labels: Readonly<Record<string, string>>
  readonly resources: { readonly memory?: string; readonly cpu?: string; readonly disk?: string }
  readonly createdAt: Date
  readonly expiresAt: Date | undefined
  readonly hardExpiresAt: Date | undefined
  /** Why, when the status is `failed`. */
  readonly failure: string | undefined
}

const PATH = '/api/v1/sandboxes'
const TEMPLATE_TIMEOUT_MS = 600_000
const PAGE_SIZE = 100

export class Sandboxes {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** A new sandbox. A template that is still being made is waited for. */
  async create(options: CreateOptions = {}): Promise<Sandbox> {
    const { sandbox_id } = await this.#claim<{ sandbox_id: string }>(options, {})
    return new Sandbox(this.#transport, sandbox_id, true)
  }

  async connect(id: string, options: RequestOptions = {}): Promise<Sandbox> {
    const sandbox = new Sandbox(this.#transport, id, false)
    await sandbox.info(options)
    return sandbox
  }

  async *list(options: ListOptions = {}): AsyncGenerator<SandboxInfo> {
    const { signal, requestTimeoutMs, status, template, pageSize = PAGE_SIZE } = options
    for (let offset = 0; ; ) {
      const page = await this.#transport.json<WireSandboxList>('GET', PATH, {
        signal,
        requestTimeoutMs,
        query: { status, template_id: template, limit: pageSize, offset }
      })
      yield* page.sandboxes.map(sandboxInfo)
      offset += page.sandboxes.length
      if (!page.has_more || page.sandboxes.length === 0) {
        return
      }
    }
  }

  async kill(id: string, options: RequestOptions = {}): Promise<void> {
    await new Sandbox(this.#transport, id, false).kill(options)
  }

  // The same key throughout: however often it is sent, it makes what was asked for once. When the
  // caller gives up while the server is at it, what comes of it is deleted.
  async #claim<T extends { sandbox_id: string }>(options: CreateOptions, more: object): Promise<T> {
    options.signal?.throwIfAborted()
    const deadline = Date.now() + (options.templateTimeoutMs ?? TEMPLATE_TIMEOUT_MS)
    const idempotencyKey = newIdempotencyKey()
    const json = { template: options.template ?? 'default', config: configOf(options), ...more }
    for (;;) {
      try {
        const { requestTimeoutMs } = options
        const call = { json, idempotencyKey, requestTimeoutMs }
        const claim = this.#transport.json<T>('POST', PATH, call)
        return await unlessAborted(claim, options.signal, late => this.kill(late.sandbox_id))
      } catch (error) {
        const waits = error instanceof AtollError && error.code === 'template_not_ready'
        if (!waits || Date.now() >= deadline) {
          throw error
        }
        await sleep(error.retryAfterMs ?? 1000, options.signal)
      }
    }
  }
}

function configOf(settings: SandboxSettings): WireSandboxConfig {
  const { env, labels, ttl, hardTtl, resources } = settings
  return {
    ...(env === undefined ? {} : { env_vars: env }),
    ...(labels === undefined ? {} : { metadata: labels }),
    ...(ttl === undefined ? {} : { ttl: seconds(ttl) }),
    ...(hardTtl === undefined ? {} : { hard_ttl: seconds(hardTtl) }),
    ...(resources === undefined ? {} : { resources: resourcesOf(resources) })
  }
}

function resourcesOf({ memory, cpu, disk }: Resources): WireSandboxConfig['resources'] & object {
  return {
    ...(memory === undefined ? {} : { memory }),
    ...(cpu === undefined ? {} : { cpu: String(cpu) }),
    ...(disk === undefined ? {} : { disk })
  }
}

export function sandboxInfo(sandbox: WireSandbox): SandboxInfo {
  return {
    id: sandbox.id,
    template: sandbox.template_id,
    status: sandbox.status,
    labels: sandbox.metadata,
    resources: sandbox.resources,
    createdAt: new Date(sandbox.created_at),
    expiresAt: date(sandbox.expires_at),
    hardExpiresAt: date(sandbox.hard_expires_at),
    failure: sandbox.failure
  }
}

function date(text: string | null): Date | undefined {
  return text === null ? undefined : new Date(text)
}
