// All sandboxes of a server: made, found, listed.
import { AtollError } from './errors.js'
import { Sandbox } from './sandbox.js'
import { seconds, sleep, unlessAborted } from './time.js'
import type { Duration } from './time.js'
import { newIdempotencyKey } from './transport.js'
import type { RequestOptions, Transport } from './transport.js'
import { Volume } from './volumes.js'
import type {
  WireNetworkPolicy,
  WireSandbox,
  WireSandboxClaim,
  WireSandboxClaims,
  WireSandboxConfig,
  WireSandboxCreate,
  WireSandboxList
} from './wire.js'

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
  /** It is paused after this long; using it wakes it up, `refresh` starts the time again. */
  ttl?: Duration | undefined
  /** It is deleted after this long even if it is used. */
  hardTtl?: Duration | undefined
  /** It is paused when nobody has used it for this long. */
  idleTtl?: Duration | undefined
  resources?: Resources | undefined
  /** What it may reach, and with which credentials. */
  network?: WireNetworkPolicy | undefined
}

export interface CreateOptions extends SandboxSettings, RequestOptions {
  /** Default `default`. */
  template?: string | undefined
  /** Of this sandbox alone; `getOrCreate` and `list` find it by it. */
  name?: string | undefined
  /** Begin as this snapshot instead of a template. */
  snapshotId?: string | undefined
  /** Volumes by the path that they shall have: their id, or more. */
  volumes?: Record<string, string | Volume | Mount> | undefined
  /** How long to wait for a template that is still being made. Default 10 minutes. */
  templateTimeoutMs?: number | undefined
}

export interface Mount {
  volumeId: string
  readOnly?: boolean | undefined
}

export interface ListOptions extends RequestOptions {
  status?: SandboxStatus | undefined
  template?: string | undefined
  name?: string | undefined
  namePrefix?: string | undefined
  /** All of them must match. */
  labels?: Record<string, string> | undefined
  /** Per request; the iterator fetches as many pages as you read. */
  pageSize?: number | undefined
}

export type SandboxStatus = WireSandbox['status']

export interface SandboxInfo {
  readonly id: string
  readonly name: string | undefined
  readonly template: string
  readonly status: SandboxStatus
  readonly labels: Readonly<Record<string, string>>
  readonly resources: { readonly memory?: string; readonly cpu?: string; readonly disk?: string }
  readonly createdAt: Date
  readonly expiresAt: Date | undefined
  readonly hardExpiresAt: Date | undefined
  /** When nobody uses it until then. */
  readonly idleExpiresAt: Date | undefined
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
    const { sandbox_id } = await this.#claim<WireSandboxClaim>(options, {}, each => [each])
    return new Sandbox(this.#transport, sandbox_id, true)
  }

  /** Several at once, in one request: all or none, or with `partial` as many as there can be. */
  async createMany(
    count: number,
    options: Omit<CreateOptions, 'name'> & { partial?: boolean | undefined } = {}
  ): Promise<Sandbox[]> {
    const { partial = false, ...rest } = options
    const { sandboxes } = await this.#claim<WireSandboxClaims>(
      rest,
      { count, partial },
      each => each.sandboxes
    )
    return sandboxes.map(each => new Sandbox(this.#transport, each.sandbox_id, true))
  }

  /** The sandbox of that name, made from the options if there is none. */
  async getOrCreate(name: string, options: Omit<CreateOptions, 'name'> = {}): Promise<Sandbox> {
    const claim = await this.#claim<WireSandboxClaim>(
      { ...options, name },
      { get_or_create: true },
      () => [] // it may be somebody else's: never deleted here
    )
    return new Sandbox(this.#transport, claim.sandbox_id, false)
  }

  async connect(id: string, options: RequestOptions = {}): Promise<Sandbox> {
    const sandbox = new Sandbox(this.#transport, id, false)
    await sandbox.info(options)
    return sandbox
  }

  async *list(options: ListOptions = {}): AsyncGenerator<SandboxInfo> {
    const { signal, requestTimeoutMs, pageSize = PAGE_SIZE } = options
    let cursor: string | undefined
    do {
      const page: WireSandboxList = await this.#transport.json('GET', PATH, {
        signal,
        requestTimeoutMs,
        query: {
          status: options.status,
          template_id: options.template,
          name: options.name,
          name_prefix: options.namePrefix,
          label: Object.entries(options.labels ?? {}).map(([key, value]) => `${key}=${value}`),
          limit: pageSize,
          cursor
        }
      })
      yield* page.sandboxes.map(sandboxInfo)
      cursor = page.next_cursor ?? undefined
    } while (cursor !== undefined)
  }

  async kill(id: string, options: RequestOptions = {}): Promise<void> {
    await new Sandbox(this.#transport, id, false).kill(options)
  }

  // The same key throughout: however often it is sent, it makes what was asked for once. When the
  // caller gives up while the server is at it, what comes of it is deleted.
  async #claim<T>(
    options: CreateOptions,
    more: Partial<WireSandboxCreate>,
    made: (claim: T) => WireSandboxClaim[]
  ): Promise<T> {
    options.signal?.throwIfAborted()
    const deadline = Date.now() + (options.templateTimeoutMs ?? TEMPLATE_TIMEOUT_MS)
    const call = {
      json: {
        ...(options.snapshotId === undefined
          ? { template: options.template ?? 'default' }
          : { snapshot_id: options.snapshotId }),
        ...(options.volumes === undefined ? {} : { mounts: mountsOf(options.volumes) }),
        config: configOf(options),
        ...(options.name === undefined ? {} : { name: options.name }),
        ...more
      },
      idempotencyKey: newIdempotencyKey(),
      requestTimeoutMs: options.requestTimeoutMs
    }
    const remove = (late: T): Promise<unknown> =>
      Promise.all(made(late).map(each => this.kill(each.sandbox_id)))
    for (;;) {
      try {
        const claim = this.#transport.json<T>('POST', PATH, call)
        return await unlessAborted(claim, options.signal, remove)
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

/** Settings as the server knows them. */
export function configOf(settings: SandboxSettings): WireSandboxConfig {
  const { env, labels, ttl, hardTtl, idleTtl, resources, network } = settings
  return {
    ...(env === undefined ? {} : { env_vars: env }),
    ...(labels === undefined ? {} : { metadata: labels }),
    ...(ttl === undefined ? {} : { ttl: seconds(ttl) }),
    ...(hardTtl === undefined ? {} : { hard_ttl: seconds(hardTtl) }),
    ...(idleTtl === undefined ? {} : { idle_ttl: seconds(idleTtl) }),
    ...(resources === undefined ? {} : { resources: resourcesOf(resources) }),
    ...(network === undefined ? {} : { network })
  }
}

function mountsOf(volumes: CreateOptions['volumes'] & object): object[] {
  return Object.entries(volumes).map(([path, volume]) => {
    const mount = typeof volume === 'string' ? { volumeId: volume } : volume
    return mount instanceof Volume
      ? { sandboxvolume_id: mount.id, mount_point: path }
      : {
          sandboxvolume_id: mount.volumeId,
          mount_point: path,
          read_only: (mount as Mount).readOnly ?? false
        }
  })
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
    name: sandbox.name ?? undefined,
    template: sandbox.template_id,
    status: sandbox.status,
    labels: sandbox.metadata,
    resources: sandbox.resources,
    createdAt: new Date(sandbox.created_at),
    expiresAt: date(sandbox.expires_at),
    hardExpiresAt: date(sandbox.hard_expires_at),
    idleExpiresAt: date(sandbox.idle_expires_at),
    failure: sandbox.failure
  }
}

function date(text: string | null): Date | undefined {
  return text === null ? undefined : new Date(text)
}
