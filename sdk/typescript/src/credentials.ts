// Credential sources: secrets that sandboxes use and never see.
import type { RequestOptions, Transport } from './transport.js'
import type { WireCredentialSource, WireCredentialSpec } from './wire.js'

/** What may be known of a source. */
export interface CredentialSource {
  readonly name: string
  readonly kind: WireCredentialSource['resolverKind']
  readonly version: number
  readonly status: 'active' | 'unreadable'
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** Values for templates such as `Bearer {{ .token }}`, or the spec of another kind. */
export type CredentialSecret =
  | { values: Record<string, string> }
  | { kind: WireCredentialSource['resolverKind']; spec: WireCredentialSpec }

const PATH = '/api/v1/credential-sources'

/** Sources of the team. A sandbox's network policy binds them by name. */
export class Credentials {
  readonly #transport: Transport

  /** @internal Use `atoll.credentials`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Nobody can read it back. */
  async create(
    name: string,
    secret: CredentialSecret,
    options: RequestOptions = {}
  ): Promise<CredentialSource> {
    const json = { name, ...bodyOf(secret) }
    return sourceOf(await this.#transport.json('POST', PATH, { ...options, json }))
  }

  /** A new version, which the next request uses. The kind stays. */
  async rotate(
    name: string,
    secret: CredentialSecret,
    options: RequestOptions = {}
  ): Promise<CredentialSource> {
    const json = bodyOf(secret)
    return sourceOf(await this.#transport.json('PUT', pathOf(name), { ...options, json }))
  }

  async get(name: string, options: RequestOptions = {}): Promise<CredentialSource> {
    return sourceOf(await this.#transport.json('GET', pathOf(name), options))
  }

  async list(options: RequestOptions = {}): Promise<CredentialSource[]> {
    return (await this.#transport.json<WireCredentialSource[]>('GET', PATH, options)).map(sourceOf)
  }

  /** Refused while a sandbox binds it. */
  async delete(name: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', pathOf(name), options)
  }
}

function pathOf(name: string): string {
  return `${PATH}/${encodeURIComponent(name)}`
}

function bodyOf(secret: CredentialSecret): { resolverKind: string; spec: WireCredentialSpec } {
  return 'values' in secret
    ? { resolverKind: 'static_headers', spec: { staticHeaders: { values: secret.values } } }
    : { resolverKind: secret.kind, spec: secret.spec }
}

function sourceOf(wire: WireCredentialSource): CredentialSource {
  return {
    name: wire.name,
    kind: wire.resolverKind,
    version: wire.currentVersion,
    status: wire.status,
    createdAt: new Date(wire.createdAt),
    updatedAt: new Date(wire.updatedAt)
  }
}
