// What the outside may reach of a sandbox: ports, commands, functions, and private previews.
import { seconds } from './time.js'
import type { Duration } from './time.js'
import type { RequestOptions, Transport } from './transport.js'
import type { WirePreview, WireService, WireServices } from './wire.js'

/** As the contract has them. */
export type Service = WireService
export type Preview = WirePreview

export interface ExposeOptions extends RequestOptions {
  /** Default `port-<port>`. */
  name?: string | undefined
  /** Callers must send it as `Authorization: Bearer`. */
  token?: string | undefined
  /** A request wakes the sandbox when it is paused. Default true. */
  resume?: boolean | undefined
}

export interface PreviewOptions extends RequestOptions {
  /** Where the link leads. Default `/`. */
  path?: string | undefined
  /** The port speaks TLS itself. */
  https?: boolean | undefined
  ttl?: Duration | undefined
}

/** `sandbox.services` */
export class Services {
  readonly #transport: Transport
  readonly #path: string

  /** @internal */
  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport
    this.#path = `${sandboxPath}/services`
  }

  async list(options: RequestOptions = {}): Promise<Service[]> {
    const answer: WireServices = await this.#transport.json('GET', this.#path, options)
    return answer.services
  }

  /** All of them: what is not given is not reachable any more. */
  async set(services: Service[], options: RequestOptions = {}): Promise<Service[]> {
    const call = { ...options, json: { services } }
    const answer: WireServices = await this.#transport.json('PUT', this.#path, call)
    return answer.services
  }

  /** Makes a port public, beside what is there, and gives its address. */
  async expose(port: number, options: ExposeOptions = {}): Promise<string> {
    const { name = `port-${port}`, token, resume = true, ...request } = options
    const auth =
      token === undefined
        ? {}
        : { auth: { mode: 'bearer' as const, bearer_token_sha256: await sha256(token) } }
    const service: Service = {
      id: name,
      port,
      ingress: { public: true, routes: [{ id: name, resume, ...auth }] } as Service['ingress']
    }
    const others = (await this.list(request)).filter((each) => each.id !== name && each.port !== port)
    const made = await this.set([...others, service], request)
    return made.find((each) => each.id === name)?.public_url ?? ''
  }
}

/** `sandbox.previews` */
export class Previews {
  readonly #transport: Transport
  readonly #path: string

  /** @internal */
  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport
    this.#path = `${sandboxPath}/previews`
  }

  /** `url` opens it in a browser, once; programs send `access_token` as X-Sandbox0-Preview. */
  create(port: number, options: PreviewOptions = {}): Promise<Preview> {
    const { path = '/', https = false, ttl, ...request } = options
    const body = { port, path, protocol: https ? 'https' : 'http', ...lifetime(ttl) }
    return this.#transport.json('POST', this.#path, { ...request, json: body })
  }

  renew(id: string, ttl?: Duration, options: RequestOptions = {}): Promise<Preview> {
    return this.#transport.json('PUT', `${this.#path}/${id}`, { ...options, json: lifetime(ttl) })
  }

  async delete(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', `${this.#path}/${id}`, options)
  }
}

function lifetime(ttl: Duration | undefined): { ttl_seconds?: number } {
  return ttl === undefined ? {} : { ttl_seconds: seconds(ttl) }
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
