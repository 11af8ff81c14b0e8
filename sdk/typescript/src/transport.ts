// Requests to one server: key, deadline, retries, errors.
//
// A request is sent again only when that cannot do harm: reading, deleting, replacing a whole file,
// or with an Idempotency-Key under which the server answers the second one as it did the first.
import { AtollError, ConnectionError, errorOf, TimeoutError } from './errors.js'
import { linkAbort, sleep } from './time.js'

/** Where the server is and how to talk to it. */
export interface ConnectionOptions {
  /** Default: `$ATOLL_URL`, `$ATOLL_API_URL`, then `http://127.0.0.1:7070`. */
  url?: string | undefined
  /**
   * Default: `$ATOLL_API_KEY`, the file `$ATOLL_KEY_FILE`, and for a server on this machine the key
   * in its data directory (`$ATOLL_DATA_DIR`, `/var/lib/atoll`) where it may be read.
   */
  apiKey?: string | undefined
  /** For one request; of a stream, until it begins. Default 60 s. */
  requestTimeoutMs?: number | undefined
  /** How often a safe request is sent again. Default 3. */
  retries?: number | undefined
  /** Another implementation of fetch, for proxies, own certificates or tests. */
  fetch?: typeof globalThis.fetch | undefined
}

/** Options that every call takes. */
export interface RequestOptions {
  signal?: AbortSignal | undefined
  /** Overrides the connection's; 0 is no limit. */
  requestTimeoutMs?: number | undefined
}

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>

export interface Call extends RequestOptions {
  query?: Query
  headers?: Record<string, string>
  /** Sent as JSON. */
  json?: unknown
  body?: BodyInit
  /** May be sent again although it is a POST. */
  idempotent?: boolean
  /** Makes a POST safe to send again; the server knows it for a day. */
  idempotencyKey?: string
}

const DEFAULT_URL = 'http://127.0.0.1:7070'
const DEFAULT_TIMEOUT_MS = 60_000
const DEFAULT_RETRIES = 3
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 5_000
const RETRIED_STATUS = new Set([429, 502, 503, 504])
const SAFE_METHODS = new Set(['GET', 'HEAD', 'PUT', 'DELETE'])

function environment(name: string): string | undefined {
  const global = globalThis as { process?: { env?: Record<string, string | undefined> } }
  try {
    return global.process?.env?.[name] || undefined
  } catch {
    return undefined // Deno without --allow-env
  }
}

// Only where there are files and a way to them that bundlers and browsers need not know.
function keyInFile(path: string): string | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } }
  const fs = process?.getBuiltinModule?.('node:fs') as
    { readFileSync(path: string, encoding: 'utf8'): string } | undefined
  try {
    return fs?.readFileSync(path, 'utf8').trim() || undefined
  } catch {
    return undefined
  }
}

// The key of a local server is never sent anywhere else.
function defaultKey(url: string): string | undefined {
  const file = environment('ATOLL_KEY_FILE')
  const given = environment('ATOLL_API_KEY') ?? (file === undefined ? undefined : keyInFile(file))
  if (
    given !== undefined ||
    !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname)
  ) {
    return given
  }
  return keyInFile(`${environment('ATOLL_DATA_DIR') ?? '/var/lib/atoll'}/admin.key`)
}

function serverUrl(given: string | undefined): string {
  const text = given ?? environment('ATOLL_URL') ?? environment('ATOLL_API_URL') ?? DEFAULT_URL
  const url = new URL(text.includes('://') ? text : `http://${text}`)
  return url.origin + url.pathname.replace(/\/+$/, '')
}

export function isBrowser(): boolean {
  const global = globalThis as { document?: unknown; WorkerGlobalScope?: unknown; Deno?: unknown }
  return (
    global.document !== undefined ||
    (global.WorkerGlobalScope !== undefined && global.Deno === undefined)
  )
}

export class Transport {
  readonly url: string
  readonly #apiKey: string | undefined
  readonly #timeoutMs: number
  readonly #retries: number
  readonly #fetch: typeof globalThis.fetch

  constructor(options: ConnectionOptions = {}) {
    this.url = serverUrl(options.url)
    this.#apiKey = options.apiKey ?? defaultKey(this.url)
    this.#timeoutMs = options.requestTimeoutMs ?? DEFAULT_TIMEOUT_MS
    this.#retries = options.retries ?? DEFAULT_RETRIES
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis)
  }

  /** The `data` of the envelope. The deadline holds for the whole answer. */
  async json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const response = await this.send(method, path, call, true)
    const envelope = (await response.json()) as { data: T }
    return envelope.data
  }

  /** The body as it comes. Cancelling the stream ends the request. */
  async stream(method: string, path: string, call: Call = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.send(method, path, call)
    return response.body ?? new Blob([]).stream()
  }

  /** An answer that is a 2xx; everything else is thrown. */
  async send(method: string, path: string, call: Call = {}, whole = false): Promise<Response> {
    const safe = call.idempotent ?? (SAFE_METHODS.has(method) || call.idempotencyKey !== undefined)
    const attempts = safe ? this.#retries + 1 : 1
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(method, path, call, whole)
      } catch (error) {
        if (attempt >= attempts || !isTransient(error)) {
          throw error
        }
        await sleep(pauseMs(attempt, error), call.signal)
      }
    }
  }

  async #once(method: string, path: string, call: Call, whole: boolean): Promise<Response> {
    const timeoutMs = call.requestTimeoutMs ?? this.#timeoutMs
    const linked = linkAbort(call.signal)
    const late = new TimeoutError(`${method} ${path}: no answer within ${timeoutMs} ms`)
    const timer = timeoutMs > 0 ? setTimeout(() => linked.abort(late), timeoutMs) : undefined
    const release = (): void => {
      clearTimeout(timer)
      linked.release()
    }
    const explain = (error: unknown): unknown => this.#explain(error, linked.signal)
    let response: Response
    try {
      response = await this.#fetch(this.#address(path, call.query), {
        method,
        headers: this.#headers(call),
        signal: linked.signal,
        ...bodyOf(call)
      })
      if (!response.ok) {
        throw await errorOf(response)
      }
    } catch (error) {
      release()
      throw error instanceof AtollError ? error : explain(error)
    }
    if (!whole) {
      clearTimeout(timer)
    }
    // The caller's signal keeps ending the body until it has been read.
    return watchBody(response, release, explain)
  }

  #explain(error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) {
      return signal.reason
    }
    const cause = error instanceof Error ? ((error.cause as Error | undefined) ?? error) : undefined
    const message = cause?.message ?? String(error)
    const hint = message.includes('certificate')
      ? 'to trust its authority, start Node with NODE_EXTRA_CA_CERTS=ca.crt'
      : 'is `atoll serve` running there? set ATOLL_URL or pass { url }'
    return new ConnectionError(`cannot reach ${this.url}: ${message} (${hint})`, { cause: error })
  }

  #address(path: string, query: Query = {}): string {
    const url = new URL(this.url + path)
    for (const [name, value] of Object.entries(query)) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined) {
          url.searchParams.append(name, String(each))
        }
      }
    }
    return url.href
  }

  #headers(call: Call): Record<string, string> {
    return {
      ...(this.#apiKey === undefined ? {} : { authorization: `Bearer ${this.#apiKey}` }),
      ...(call.json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(call.idempotencyKey === undefined ? {} : { 'idempotency-key': call.idempotencyKey }),
      ...call.headers
    }
  }
}

function bodyOf(call: Call): RequestInit {
  if (call.json !== undefined) {
    return { body: JSON.stringify(call.json) }
  }
  if (call.body === undefined) {
    return {}
  }
  if (!(call.body instanceof ReadableStream)) {
    return { body: call.body }
  }
  // The DOM types do not know `duplex` yet. The other two spare a copy of all that is sent: fetch
  // duplicates a body for redirects and prompts, unless neither is possible.
  return { body: call.body, duplex: 'half', redirect: 'error', window: null } as RequestInit
}

function isTransient(error: unknown): boolean {
  if (error instanceof ConnectionError) {
    return true
  }
  return error instanceof AtollError && RETRIED_STATUS.has(error.status ?? 0)
}

// Doubling, with jitter, so that clients that failed together do not come back together.
function pauseMs(attempt: number, error: unknown): number {
  const asked = error instanceof AtollError ? error.retryAfterMs : undefined
  const own = FIRST_PAUSE_MS * 2 ** (attempt - 1) * (0.5 + Math.random() / 2)
  return Math.min(asked ?? own, MAX_PAUSE_MS)
}

// The same answer, read at the consumer's pace; `release` is called when its body has ended.
function watchBody(
  response: Response,
  release: () => void,
  explain: (error: unknown) => unknown
): Response {
  if (response.body === null) {
    release()
    return response
  }
  const reader = response.body.getReader()
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (done) {
            release()
            controller.close()
          } else {
            controller.enqueue(value)
          }
        } catch (error) {
          release()
          controller.error(explain(error))
        }
      },
      async cancel(reason) {
        release()
        await reader.cancel(reason)
      }
    },
    { highWaterMark: 0 }
  )
  return new Response(body, { status: response.status, headers: response.headers })
}

/** A key for requests that make something. It must be unique, not secret. */
export function newIdempotencyKey(): string {
  const bytes = new Uint8Array(16)
  if (globalThis.crypto === undefined) {
    bytes.forEach((_, index) => (bytes[index] = Math.random() * 256)) // Node 18
  } else {
    crypto.getRandomValues(bytes)
  }
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('')
}
