// Code in interpreters that keep their state.
import { ByteCollector, decodeBase64, drain, jsonLines } from './bytes.js'
import { createContext, processFields } from './commands.js'
import { AtollError, ConnectionError, InvalidRequestError } from './errors.js'
import { unlessAborted } from './time.js'
import type { RequestOptions, Transport } from './transport.js'
import type { WireContext, WireDone, WireExecEvent, WireReplConfig } from './wire.js'

/** These, or another that server and image know, such as `ruby`, `lua` or `sqlite`. */
export type Language = 'python' | 'javascript' | 'typescript' | 'bash' | (string & {})

/** How to start a REPL and how to see that it is ready, in the words of the API's contract. */
export type ReplConfig = WireReplConfig

export interface ContextOptions extends RequestOptions {
  /** Default `python`. */
  language?: Language | undefined
  /** A REPL of your own instead of a language: any program that prompts, run on a terminal. */
  repl?: ReplConfig | undefined
  cwd?: string | undefined
  env?: Record<string, string> | undefined
  user?: string | undefined
  /** Ends the interpreter when nothing has run for this long. */
  idleTimeoutSeconds?: number | undefined
}

export interface RunCodeOptions extends RequestOptions {
  /** Interrupts the code after this long; the state stays. Default: never. */
  timeoutMs?: number | undefined
  onStdout?: ((text: string) => void | Promise<void>) | undefined
  onStderr?: ((text: string) => void | Promise<void>) | undefined
  /** Throw a CodeError unless the code ran to its end without an error. */
  check?: boolean | undefined
  /** How much of each stream the result keeps. Callbacks see everything. Default 16 MiB. */
  maxOutputBytes?: number | undefined
}

export interface CodeFailure {
  readonly name: string
  readonly value: string
  readonly traceback: string
}

/** What running code gave. Switch over `outcome`. */
export interface Execution {
  /** Completed without an error. */
  readonly ok: boolean
  readonly outcome: 'completed' | 'timed_out' | 'killed' | 'lost' | 'never_started'
  /** The value of the last expression as text. */
  readonly text: string | undefined
  /** That value and everything displayed, in order, in all the forms it has. */
  readonly results: readonly RichResult[]
  readonly stdout: string
  readonly stderr: string
  /** As an interactive session would have shown it. */
  readonly output: string
  readonly error: CodeFailure | undefined
  /** Of a shell's last command. */
  readonly exitCode: number | undefined
  /** With outcome `killed`. */
  readonly signal: number | undefined
  readonly truncated: boolean
  /** The interpreter is still there; after `exit()` it is not. */
  readonly running: boolean
  readonly contextId: string
}

/** Thrown with `check: true`. */
export class CodeError extends AtollError {
  constructor(readonly execution: Execution) {
    const { error, outcome } = execution
    super(
      error === undefined ? `the code did not finish: ${outcome}` : `${error.name}: ${error.value}`,
      {
        code: outcome
      }
    )
  }
}

/** One value or figure, in all the forms the interpreter gave it. */
export class RichResult {
  constructor(
    /** The value of the last expression; otherwise something displayed on the way. */
    readonly isMain: boolean,
    /** By MIME type: text, base64 for binary types, a value for `application/json`. */
    readonly data: Readonly<Record<string, unknown>>
  ) {}

  get formats(): string[] {
    return Object.keys(this.data)
  }
  get text(): string | undefined {
    return this.#text('text/plain')
  }
  get html(): string | undefined {
    return this.#text('text/html')
  }
  get markdown(): string | undefined {
    return this.#text('text/markdown')
  }
  get latex(): string | undefined {
    return this.#text('text/latex')
  }
  get svg(): string | undefined {
    return this.#text('image/svg+xml')
  }
  get json(): unknown {
    return this.data['application/json']
  }
  get png(): Uint8Array | undefined {
    return this.bytes('image/png')
  }
  get jpeg(): Uint8Array | undefined {
    return this.bytes('image/jpeg')
  }
  get pdf(): Uint8Array | undefined {
    return this.bytes('application/pdf')
  }

  /** A binary form, decoded. */
  bytes(mimeType: string): Uint8Array | undefined {
    const base64 = this.#text(mimeType)
    return base64 === undefined ? undefined : decodeBase64(base64)
  }

  /** For `<img src>`. */
  dataUrl(mimeType: 'image/png' | 'image/jpeg' | 'application/pdf'): string | undefined {
    const base64 = this.#text(mimeType)
    return base64 === undefined ? undefined : `data:${mimeType};base64,${base64}`
  }

  #text(mimeType: string): string | undefined {
    const value = this.data[mimeType]
    return typeof value === 'string' ? value : undefined
  }
}

const INTERRUPT_TIMEOUT_MS = 10_000
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024

/** An interpreter. Code runs in it one piece at a time, in the order it is given. */
export class CodeContext {
  readonly #transport: Transport
  readonly #path: string
  #line: Promise<unknown> = Promise.resolve()

  /** @internal Use `sandbox.createContext`. */
  constructor(
    transport: Transport,
    contextsPath: string,
    readonly id: string,
    readonly language: string
  ) {
    this.#transport = transport
    this.#path = `${contextsPath}/${id}`
  }

  static async create(
    transport: Transport,
    contextsPath: string,
    options: ContextOptions = {}
  ): Promise<CodeContext> {
    const language = options.language ?? 'python'
    const context = await createContext(
      transport,
      contextsPath,
      {
        type: 'repl',
        repl: options.repl === undefined ? { alias: language } : { repl_config: options.repl },
        ...processFields(options),
        ...(options.idleTimeoutSeconds === undefined
          ? {}
          : { idle_timeout_sec: options.idleTimeoutSeconds })
      },
      options
    )
    return new CodeContext(transport, contextsPath, context.id, context.alias ?? language)
  }

  /** @internal */
  static async attach(
    transport: Transport,
    contextsPath: string,
    id: string,
    options: RequestOptions
  ): Promise<CodeContext> {
    const path = `${contextsPath}/${encodeURIComponent(id)}`
    const { alias } = await transport.json<WireContext>('GET', path, options)
    if (alias === undefined) {
      throw new InvalidRequestError(`${id} is a command; use commands.attach`)
    }
    return new CodeContext(transport, contextsPath, id, alias)
  }

  /**
   * Runs code and gives what came of it; an error in the code is a result, not an exception, unless
   * you ask for one with `check`. Aborting interrupts the code and leaves the state intact.
   */
  async run(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    options.signal?.throwIfAborted()
    // In line here and not at the server, so that code that only waits is never interrupted for.
    const execution = this.#line.then(() => this.#runNow(code, options))
    this.#line = execution.catch(() => undefined)
    return unlessAborted(execution, options.signal, async () => undefined)
  }

  async #runNow(code: string, options: RunCodeOptions): Promise<Execution> {
    options.signal?.throwIfAborted()
    try {
      const execution = await this.#execute(code, options)
      if (options.check === true && !execution.ok) {
        throw new CodeError(execution)
      }
      return execution
    } catch (error) {
      if (options.signal?.aborted === true) {
        await this.interrupt({ requestTimeoutMs: INTERRUPT_TIMEOUT_MS }).catch(() => undefined)
      }
      throw error
    }
  }

  // Not sent again after a broken connection: the code may have run.
  async #execute(code: string, options: RunCodeOptions): Promise<Execution> {
    const stream = await this.#transport.stream('POST', `${this.#path}/exec`, {
      json: {
        data: code,
        ...(options.timeoutMs === undefined ? {} : { timeout_ms: Math.ceil(options.timeoutMs) })
      },
      headers: { accept: 'application/x-ndjson' },
      signal: options.signal,
      requestTimeoutMs: options.requestTimeoutMs ?? 0
    })
    const output = new Transcript(options.maxOutputBytes ?? MAX_OUTPUT_BYTES)
    const lines = jsonLines<WireExecEvent>(stream)
    for await (const line of lines) {
      if (line.type === 'done') {
        await drain(lines)
        return executionOf(line, output, this.id)
      }
      const text = output.add(line.source, decodeBase64(line.data_base64))
      await (line.source === 'stderr' ? options.onStderr : options.onStdout)?.(text)
    }
    throw new ConnectionError('the answer broke off; the code may still run')
  }

  /** Ends what runs. State stays. */
  async interrupt(options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('POST', `${this.#path}/interrupt`, { ...options, json: {} })
  }

  /** A fresh interpreter under the same id. */
  async restart(options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('POST', `${this.#path}/restart`, { ...options, json: {} })
  }

  /** Ends the interpreter. */
  async remove(options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', this.#path, options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove()
  }
}

// What code printed: both streams by themselves, and together as they came.
class Transcript {
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
  readonly stdout: ByteCollector
  readonly stderr: ByteCollector
  readonly both: ByteCollector

  constructor(limit: number) {
    this.stdout = new ByteCollector(limit)
    this.stderr = new ByteCollector(limit)
    this.both = new ByteCollector(limit)
  }

  /** Returns the bytes as text. */
  add(source: string, bytes: Uint8Array): string {
    const stream = source === 'stderr' ? 'stderr' : 'stdout'
    this[stream].add(bytes)
    this.both.add(bytes)
    return this.#decoders[stream].decode(bytes, { stream: true })
  }

  get truncated(): boolean {
    return this.stdout.truncated || this.stderr.truncated || this.both.truncated
  }
}

function executionOf(done: WireDone, printed: Transcript, contextId: string): Execution {
  const results = done.results.map(each => new RichResult(each.is_main, each.data))
  const text = results.filter(each => each.isMain).at(-1)?.text
  const shown = [printed.both.text(), withNewline(text), withNewline(done.error?.traceback)]
  return {
    ok: done.outcome === 'completed' && done.status === 'ok',
    outcome: done.outcome,
    text,
    results,
    stdout: printed.stdout.text(),
    stderr: printed.stderr.text(),
    output: shown.join(''),
    error: done.error,
    exitCode: done.exit_code,
    signal: done.signal,
    truncated: printed.truncated || done.truncated === true,
    running: done.running,
    contextId
  }
}

function withNewline(text: string | undefined): string {
  return text === undefined || text === '' || text.endsWith('\n') ? (text ?? '') : `${text}\n`
}
