// Templates: what sandboxes start from.
import { drain, encodeBase64, jsonLines } from './bytes.js'
import { AtollError } from './errors.js'
import { uploadBody } from './files.js'
import type { FileData } from './files.js'
import { tarOf } from './tar.js'
import type { FileMap } from './tar.js'
import type { Call, RequestOptions, Transport } from './transport.js'
import type { WireTemplate, WireTemplateLog, WireTemplateSpec } from './wire.js'

export interface TemplateInfo {
  readonly id: string
  readonly builtin: boolean
  readonly state: 'creating' | 'ready' | 'failed'
  readonly image: string | undefined
  readonly description: string | undefined
  /** Sandboxes of it. */
  readonly sandboxCount: number
  /** Why, when the state is `failed`. */
  readonly failure: string | undefined
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** A line about a template in the making. */
export interface BuildEvent {
  readonly type: 'step' | 'cached' | 'output' | 'note' | 'missed'
  readonly text: string
  readonly step: number | undefined
  readonly total: number | undefined
  /** Of the Dockerfile. */
  readonly line: number | undefined
}

export interface Login {
  username: string
  password: string
}

export interface PullOptions extends RequestOptions {
  onLog?: ((event: BuildEvent) => void | Promise<void>) | undefined
  /** For the image's registry. */
  login?: Login | undefined
  /** Plain HTTP or any certificate. */
  insecureRegistry?: boolean | undefined
}

export interface AddOptions extends PullOptions {
  description?: string | undefined
  env?: Record<string, string> | undefined
  resources?: { memory?: string; cpu?: string; disk?: string } | undefined
}

export interface BuildOptions extends PullOptions {
  /** The Dockerfile's text. Default: the file of that name in the context. */
  dockerfile?: string | undefined
  /** What COPY and ADD see: files by path, or a tar archive. */
  context?: FileMap | Exclude<FileData, string> | undefined
  args?: Record<string, string> | undefined
  /** Stop at this stage. */
  target?: string | undefined
  noCache?: boolean | undefined
}

/** A template could not be made. */
export class BuildError extends AtollError {
  constructor(
    message: string,
    code: string | undefined,
    /** Of the Dockerfile: where it failed. */
    readonly line: number | undefined
  ) {
    super(message, { code })
  }
}

const PATH = '/api/v1/templates'

export class Templates {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  async list(options: RequestOptions = {}): Promise<TemplateInfo[]> {
    const { templates } = await this.#transport.json<{ templates: WireTemplate[] }>(
      'GET',
      PATH,
      options
    )
    return templates.map(templateInfo)
  }

  async get(id: string, options: RequestOptions = {}): Promise<TemplateInfo> {
    return templateInfo(await this.#transport.json<WireTemplate>('GET', pathOf(id), options))
  }

  /** A template from an image of a registry. Returns when it is ready. */
  async add(id: string, image: string, options: AddOptions = {}): Promise<TemplateInfo> {
    const { memory, cpu, disk } = options.resources ?? {}
    const spec: WireTemplateSpec = {
      mainContainer: {
        image,
        resources: {
          ...(memory === undefined ? {} : { memory }),
          ...(cpu === undefined ? {} : { cpu }),
          ...(disk === undefined ? {} : { ephemeralStorage: disk })
        }
      },
      ...(options.description === undefined ? {} : { description: options.description }),
      ...(options.env === undefined ? {} : { envVars: options.env })
    }
    const { signal, requestTimeoutMs } = options
    await this.#transport.json('POST', PATH, {
      json: { template_id: id, spec, ...registryFields(options) },
      signal,
      requestTimeoutMs
    })
    return this.#finish(id, 'GET', 'logs', {}, options)
  }

  /** Fetches a template's image again, or makes a builtin one. Returns when it is ready. */
  pull(id: string, options: PullOptions = {}): Promise<TemplateInfo> {
    return this.#finish(id, 'POST', 'pull', { json: registryFields(options) }, options)
  }

  /** A template from a Dockerfile. Returns when it is ready; aborting ends the build. */
  async build(id: string, options: BuildOptions): Promise<TemplateInfo> {
    const { body } = await uploadBody(contextOf(options))
    const call: Call = {
      query: {
        arg: Object.entries(options.args ?? {}).map(([name, value]) => `${name}=${value}`),
        target: options.target,
        no_cache: options.noCache,
        insecure_registry: options.insecureRegistry
      },
      headers: {
        'content-type': 'application/x-tar',
        ...(options.login === undefined
          ? {}
          : {
              'x-registry-auth': encodeBase64(
                new TextEncoder().encode(JSON.stringify(options.login))
              )
            })
      },
      body
    }
    return this.#finish(id, 'POST', 'build', call, options)
  }

  /** A template from an image archive: `docker save`, or an OCI archive. */
  async import(id: string, archive: FileData, options: PullOptions = {}): Promise<TemplateInfo> {
    const { body } = await uploadBody(archive)
    const headers = { 'content-type': 'application/x-tar' }
    return this.#finish(id, 'POST', 'import', { headers, body }, options)
  }

  async delete(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', pathOf(id), options)
  }

  // Follows the log of a job to its end.
  async #finish(
    id: string,
    method: string,
    verb: string,
    call: Call,
    options: PullOptions
  ): Promise<TemplateInfo> {
    const { signal, requestTimeoutMs = 0 } = options
    const request = { ...call, signal, requestTimeoutMs }
    const log = await this.#transport.stream(method, `${pathOf(id)}/${verb}`, request)
    let line: number | undefined
    const records = jsonLines<WireTemplateLog>(log)
    for await (const record of records) {
      line = record.line ?? line
      if (record.type === 'done') {
        await drain(records)
        return this.get(id, { signal })
      }
      if (record.type === 'error') {
        throw new BuildError(record.message ?? 'the build failed', record.code, line)
      }
      if (record.type !== 'alive') {
        await options.onLog?.(buildEvent(record.type, record))
      }
    }
    throw new BuildError('the log broke off before the end', undefined, line)
  }
}

function pathOf(id: string): string {
  return `${PATH}/${encodeURIComponent(id)}`
}

function contextOf(options: BuildOptions): FileData {
  const { context, dockerfile } = options
  const isMap =
    context === undefined ||
    (Object.getPrototypeOf(context) === Object.prototype && !(Symbol.asyncIterator in context))
  if (isMap) {
    const files = (context ?? {}) as FileMap
    return tarOf(dockerfile === undefined ? files : { ...files, Dockerfile: dockerfile })
  }
  if (dockerfile !== undefined) {
    throw new TypeError('"dockerfile" goes with files by path; put it into your archive instead')
  }
  return context as Exclude<FileData, string>
}

function registryFields(options: PullOptions): Record<string, unknown> {
  return {
    ...(options.login === undefined ? {} : { registry_auth: options.login }),
    ...(options.insecureRegistry === undefined
      ? {}
      : { insecure_registry: options.insecureRegistry })
  }
}

function buildEvent(type: BuildEvent['type'], record: WireTemplateLog): BuildEvent {
  return {
    type,
    text: record.text ?? '',
    step: record.step,
    total: record.total,
    line: record.line
  }
}

function templateInfo(template: WireTemplate): TemplateInfo {
  return {
    id: template.template_id,
    builtin: template.scope === 'public',
    state: template.status.creation.state,
    image: template.spec.mainContainer?.image,
    description: template.spec.description,
    sandboxCount: template.status.activeCount,
    failure: template.status.creation.message,
    createdAt: new Date(template.created_at),
    updatedAt: new Date(template.updated_at)
  }
}
