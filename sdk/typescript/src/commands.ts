// Commands: run to the end, or started and held by a handle.
//
// Output is followed as lines of a stream that says where in the output each piece stands. A broken
// connection is taken up again at that place, so nothing is lost or seen twice; a reader that is
// slow slows the process down instead of filling memory.
import { ByteCollector, decodeBase64, drain, encodeBase64, jsonLines } from './bytes.js'
import { AtollError, ConnectionError, ServerError } from './errors.js'
import { sleep } from './time.js'
import { newIdempotencyKey } from './transport.js'
import type { Call, RequestOptions, Transport } from './transport.js'
import type { WireCommandEvent, WireContext, WireContextCreate, WireExit } from './wire.js'

/** Text is for bash, an array is a program with its arguments. */
export type Command = string | readonly string[]

export type StdinData = string | Uint8Array | AsyncIterable<string | Uint8Array>

export interface StartOptions extends RequestOptions {
  /** Default: the template's, usually `/workspace`. */
  cwd?: string | undefined
  /** Over the sandbox's environment. */
  env?: Record<string, string> | undefined
  user?: string | undefined
  /** The server ends the command after this long. Default: never. */
  timeoutMs?: number | undefined
  /** Written to standard input, which then ends. `true` keeps it open for `handle.write`. */
  stdin?: StdinData | true | undefined
  /** What runs a command given as text, as `shell -c text`. Default `bash`. */
  shell?: string | undefined
}

export interface RunOptions extends Omit<StartOptions, 'stdin'> {
  /** Written to standard input, which then ends. */
  stdin?: StdinData | undefined
  onStdout?: ((text: string, bytes: Uint8Array) => void | Promise<void>) | undefined
  onStderr?: ((text: string, bytes: Uint8Array) => void | Promise<void>) | undefined
  /** Throw a CommandError unless the command completed with exit code 0. */
  check?: boolean | undefined
  /** How much of each stream the result keeps. Callbacks see everything. Default 16 MiB. */
  maxOutputBytes?: number | undefined
}

interface ResultBase {
  /** Completed with exit code 0. */
  readonly ok: boolean
  /** Of the context on the server; `commands.attach` takes it. Empty if it never started. */
  readonly id: string
  readonly stdout: string
  readonly stderr: string
  /** More output came than `maxOutputBytes`, or than the server still had. */
  readonly truncated: boolean
}

/** How a command ended. Switch over `outcome`. */
export type CommandResult =
  | (ResultBase & { readonly outcome: 'completed'; readonly exitCode: number })
  | (ResultBase & { readonly outcome: 'timed_out'; readonly exitCode: number })
  | (ResultBase & { readonly outcome: 'killed'; readonly signal: number; readonly exitCode: number })
  /** It may still run: `commands.attach(id, { from: cursor })`. */
  | (ResultBase & { readonly outcome: 'lost'; readonly cursor: number; readonly error: AtollError })
  /** There is no such program, directory or the like. */
  | (ResultBase & { readonly outcome: 'never_started'; readonly error: AtollError })

/** Thrown with `check: true`. */
export class CommandError extends AtollError {
  constructor(readonly result: CommandResult) {
    super(describe(result), { code: result.outcome })
  }
}

function describe(result: CommandResult): string {
  const tail = result.stderr.trim().slice(-500)
  const about = tail === '' ? '' : `: ${tail}`
  switch (result.outcome) {
    case 'completed':
      return `the command exited with ${result.exitCode}${about}`
    case 'timed_out':
      return `the command timed out${about}`
    case 'killed':
      return `the command was killed by signal ${result.signal}${about}`
    case 'lost':
    case 'never_started':
      return result.error.message
  }
}

/** A piece of output. */
export interface OutputEvent {
  /** `pty` where the command has a terminal. */
  readonly stream: 'stdout' | 'stderr' | 'pty'
  readonly bytes: Uint8Array
  /** The bytes as text; a character that is cut in two comes with its second half. */
  readonly text: string
  /** Where the output continues after this piece, for `from`. */
  readonly cursor: number
}

export interface CommandInfo {
  readonly id: string
  readonly pid: number
  readonly running: boolean
  readonly kind: 'command' | 'interpreter'
  readonly command: readonly string[]
  readonly language: string | undefined
  readonly cwd: string
  readonly user: string
  readonly exitCode: number | undefined
  readonly startedAt: Date
}

/** A name such as `TERM` or `SIGKILL`, or a number. */
export type Signal = string | number

const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
const MAX_FAILURES = 5 // in a row, of following output
const LASTING_MS = 10_000 // a connection that lasted this long was good
const FIRST_PAUSE_MS = 100
const STDIN_PIECE_BYTES = 256 * 1024
const KILL_TIMEOUT_MS = 10_000
const NEVER_STARTED = new Set([
  'command_not_found',
  'command_not_executable',
  'cwd_not_found',
  'user_not_found',
  'interpreter_not_found'
])

type Ending = WireExit | { lost: AtollError; cursor: number }

/** A command that runs, or did. Nothing is read before you ask for output. */
export class CommandHandle implements AsyncIterable<OutputEvent> {
  readonly #transport: Transport
  readonly #path: string
  #writing: Promise<unknown> = Promise.resolve()
  #cursor: number
  #first: AsyncGenerator<WireCommandEvent> | undefined

  /** @internal */
  constructor(
    transport: Transport,
    contextsPath: string,
    readonly id: string,
    readonly pid: number,
    options: { from?: number | undefined; first?: AsyncGenerator<WireCommandEvent> } = {}
  ) {
    this.#transport = transport
    this.#path = `${contextsPath}/${id}`
    this.#cursor = options.from ?? 0
    this.#first = options.first
  }

  /** Where output read so far ends; a later `attach(id, { from })` continues there. */
  get cursor(): number {
    return this.#cursor
  }

  /** Output from the start (or from where the handle was attached), live until the command ends. */
  [Symbol.asyncIterator](): AsyncIterator<OutputEvent> {
    return this.output()
  }

  /** Like iterating the handle, from a place of your choice. Leaving the loop disconnects. */
  async *output(options: { from?: number; signal?: AbortSignal } = {}): AsyncGenerator<OutputEvent> {
    yield* this.#follow(options.from ?? this.#cursor, options.signal)
  }

  /** Reads the rest of the output and says how the command ended. */
  async wait(
    options: Pick<RunOptions, 'onStdout' | 'onStderr' | 'check' | 'maxOutputBytes' | 'signal'> = {}
  ): Promise<CommandResult> {
    const limit = options.maxOutputBytes ?? MAX_OUTPUT_BYTES
    const collected = { stdout: new ByteCollector(limit), stderr: new ByteCollector(limit) }
    const output = this.#follow(this.#cursor, options.signal)
    let expected = this.#cursor
    let missing = false
    try {
      let step = await output.next()
      for (; !step.done; step = await output.next()) {
        const { stream, bytes, text, cursor } = step.value
        missing ||= cursor - bytes.length > expected
        expected = cursor
        const target = stream === 'stderr' ? 'stderr' : 'stdout'
        collected[target].add(bytes)
        await (target === 'stderr' ? options.onStderr : options.onStdout)?.(text, bytes)
      }
      const result = resultOf(step.value, {
        id: this.id,
        stdout: collected.stdout.text(),
        stderr: collected.stderr.text(),
        truncated: missing || collected.stdout.truncated || collected.stderr.truncated
      })
      return checked(result, options.check)
    } finally {
      await output.return({ lost: new ConnectionError('not read to the end'), cursor: expected })
    }
  }

  /** To standard input (or the terminal), in the order of the calls. */
  async write(data: StdinData, options: RequestOptions = {}): Promise<void> {
    await this.#inOrder(async () => {
      for await (const piece of pieces(data)) {
        await this.#post('input', { data_base64: encodeBase64(piece) }, options)
      }
    })
  }

  /** Ends standard input. */
  async closeStdin(options: RequestOptions = {}): Promise<void> {
    await this.#inOrder(() => this.#post('input', { eof: true }, options))
  }

  /** To the command and its children. */
  async signal(signal: Signal, options: RequestOptions = {}): Promise<void> {
    await this.#post('signal', { signal: String(signal) }, options)
  }

  /** SIGKILL. A command that has already ended is no error. */
  async kill(options: RequestOptions = {}): Promise<void> {
    await this.signal('KILL', options).catch(ignoreEnded)
  }

  /** Ends the command, politely for five seconds, and forgets its output. */
  async remove(options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', this.#path, options).catch(ignoreEnded)
  }

  async info(options: RequestOptions = {}): Promise<CommandInfo> {
    return infoOf(await this.#transport.json<WireContext>('GET', this.#path, options))
  }

  /** `await using` ends the command. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }

  /** Of the terminal; for `pty` only. */
  protected async resizeTerminal(cols: number, rows: number, options: RequestOptions): Promise<void> {
    await this.#transport.json('POST', `${this.#path}/resize`, {
      ...options,
      json: { cols, rows },
      idempotent: true
    })
  }

  async #post(verb: string, json: unknown, options: RequestOptions): Promise<void> {
    await this.#transport.json('POST', `${this.#path}/${verb}`, { ...options, json })
  }

  #inOrder(action: () => Promise<void>): Promise<void> {
    const next = this.#writing.then(action, action)
    this.#writing = next.catch(() => undefined)
    return next
  }

  async *#follow(from: number, signal?: AbortSignal): AsyncGenerator<OutputEvent, Ending> {
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder(), pty: new TextDecoder() }
    let cursor = from
    for (let failures = 0; ; ) {
      const since = Date.now()
      try {
        const lines = await this.#lines(cursor, signal)
        for await (const line of lines) {
          failures = 0
          if (line.type === 'exit') {
            await drain(lines)
            return line
          }
          if (line.type === 'output') {
            const bytes = decodeBase64(line.data_base64)
            cursor = line.offset + bytes.length
            this.#cursor = Math.max(this.#cursor, cursor)
            if (line.source !== 'channel') {
              const text = decoders[line.source].decode(bytes, { stream: true })
              yield { stream: line.source, bytes, text, cursor }
            }
          }
        }
        throw new ConnectionError('the output broke off')
      } catch (error) {
        signal?.throwIfAborted()
        if (!(error instanceof ConnectionError || error instanceof ServerError)) {
          throw error
        }
        // Runtimes end a connection that is silent for some minutes; that is no failure.
        failures = Date.now() - since > LASTING_MS ? 1 : failures + 1
        if (failures >= MAX_FAILURES) {
          return { lost: error, cursor }
        }
        await sleep(FIRST_PAUSE_MS * 2 ** failures, signal)
      }
    }
  }

  async #lines(from: number, signal?: AbortSignal): Promise<AsyncGenerator<WireCommandEvent>> {
    const first = this.#first
    this.#first = undefined
    if (first !== undefined) {
      return first
    }
    const call = { query: { from }, signal }
    return jsonLines(await this.#transport.stream('GET', `${this.#path}/stream`, call))
  }
}

export class Commands {
  readonly #transport: Transport
  readonly #path: string

  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport
    this.#path = `${sandboxPath}/contexts`
  }

  /**
   * Runs a command to its end. A failing command is a result, not an exception, unless you ask for
   * one with `check`. Aborting kills the command.
   */
  async run(command: Command, options: RunOptions = {}): Promise<CommandResult> {
    options.signal?.throwIfAborted()
    // Follows the caller's signal only once the command has a handle to be killed by.
    const ending = new AbortController()
    let handle: CommandHandle
    try {
      handle = await this.#startFollowed(command, options, ending.signal)
    } catch (error) {
      if (error instanceof AtollError && NEVER_STARTED.has(error.reason ?? '')) {
        const none = { ok: false, id: '', stdout: '', stderr: '', truncated: false }
        return checked({ ...none, outcome: 'never_started', error }, options.check)
      }
      throw error
    }
    const onAbort = (): void => ending.abort(options.signal?.reason)
    options.signal?.addEventListener('abort', onAbort, { once: true })
    try {
      options.signal?.throwIfAborted()
      feed(handle, options.stdin, ending.signal).catch(error => ending.abort(error))
      return await handle.wait({ ...options, signal: ending.signal })
    } catch (error) {
      if (!(error instanceof CommandError)) {
        await handle.kill({ requestTimeoutMs: KILL_TIMEOUT_MS }).catch(() => undefined)
      }
      throw error
    } finally {
      options.signal?.removeEventListener('abort', onAbort)
      ending.abort()
    }
  }

  /** Starts a command that goes on in the background, also without you. */
  async start(command: Command, options: StartOptions = {}): Promise<CommandHandle> {
    const handle = await this.#create(command, options)
    if (options.stdin !== undefined && options.stdin !== true) {
      await handle.write(options.stdin, options)
      await handle.closeStdin(options)
    }
    return handle
  }

  /** A handle for a command that was started elsewhere or earlier. */
  async attach(id: string, options: RequestOptions & { from?: number } = {}): Promise<CommandHandle> {
    const context = await this.#transport.json<WireContext>('GET', `${this.#path}/${id}`, options)
    return new CommandHandle(this.#transport, this.#path, id, context.pid, { from: options.from })
  }

  /** What runs in the sandbox and what did lately. */
  async list(options: RequestOptions = {}): Promise<CommandInfo[]> {
    const { contexts } = await this.#transport.json<{ contexts: WireContext[] }>(
      'GET',
      this.#path,
      options
    )
    return contexts.map(infoOf)
  }

  // Start and output in one request. One that had to be repeated answers with the context alone.
  async #startFollowed(
    command: Command,
    options: RunOptions,
    signal: AbortSignal
  ): Promise<CommandHandle> {
    const response = await this.#transport.send('POST', this.#path, {
      json: contextFields(command, options, options.stdin !== undefined),
      headers: { accept: 'application/x-ndjson' },
      idempotencyKey: newIdempotencyKey(),
      requestTimeoutMs: options.requestTimeoutMs,
      signal
    })
    if (response.headers.get('content-type') !== 'application/x-ndjson' || response.body === null) {
      const { data } = (await response.json()) as { data: WireContext }
      return new CommandHandle(this.#transport, this.#path, data.id, data.pid)
    }
    const first = jsonLines<WireCommandEvent>(response.body)
    const line = await first.next()
    if (line.done === true || line.value.type !== 'started') {
      throw new ConnectionError('the server did not say what it started')
    }
    const { id, pid } = line.value.context
    return new CommandHandle(this.#transport, this.#path, id, pid, { first })
  }

  async #create(command: Command, options: StartOptions): Promise<CommandHandle> {
    const fields = contextFields(command, options, options.stdin !== undefined)
    const context = await createContext(this.#transport, this.#path, fields, options)
    return new CommandHandle(this.#transport, this.#path, context.id, context.pid)
  }
}

// Errors of the server are passed over: a command that ends without reading its input may do so.
async function feed(
  handle: CommandHandle,
  stdin: StdinData | undefined,
  signal: AbortSignal
): Promise<void> {
  if (stdin === undefined) {
    return
  }
  try {
    await handle.write(stdin, { signal })
    await handle.closeStdin({ signal })
  } catch (error) {
    if (!(error instanceof AtollError)) {
      throw error
    }
  }
}

/** The request for a command, with or without a terminal. */
export function contextFields(
  command: Command,
  options: Omit<StartOptions, 'stdin'>,
  stdinOpen: boolean
): WireContextCreate {
  const argv =
    typeof command === 'string' ? [options.shell ?? 'bash', '-c', command] : [...command]
  return {
    type: 'cmd',
    cmd: { command: argv },
    stdin_open: stdinOpen,
    ...processFields(options),
    ...(options.timeoutMs === undefined ? {} : { timeout_ms: Math.ceil(options.timeoutMs) })
  }
}

/** What every process may be given. */
export function processFields(
  options: Pick<StartOptions, 'cwd' | 'env' | 'user'>
): Pick<WireContextCreate, 'cwd' | 'env_vars' | 'user'> {
  return {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.env === undefined ? {} : { env_vars: options.env }),
    ...(options.user === undefined ? {} : { user: options.user })
  }
}

export function createContext(
  transport: Transport,
  path: string,
  json: WireContextCreate,
  options: RequestOptions
): Promise<WireContext> {
  const { signal, requestTimeoutMs } = options
  const call: Call = { json, signal, requestTimeoutMs, idempotencyKey: newIdempotencyKey() }
  return transport.json<WireContext>('POST', path, call)
}

function ignoreEnded(error: unknown): void {
  if (!(error instanceof AtollError && (error.status === 404 || error.status === 410))) {
    throw error
  }
}

async function* pieces(data: StdinData): AsyncGenerator<Uint8Array> {
  if (typeof data !== 'string' && !(data instanceof Uint8Array)) {
    for await (const each of data) {
      yield* pieces(each)
    }
    return
  }
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
  for (let i = 0; i < bytes.length; i += STDIN_PIECE_BYTES) {
    yield bytes.subarray(i, i + STDIN_PIECE_BYTES)
  }
}

function resultOf(ending: Ending, base: Omit<ResultBase, 'ok'>): CommandResult {
  if ('lost' in ending) {
    return { ...base, ok: false, outcome: 'lost', cursor: ending.cursor, error: ending.lost }
  }
  const exitCode = ending.exit_code ?? 0
  if (ending.timed_out === true || ending.idle_timed_out === true) {
    return { ...base, ok: false, outcome: 'timed_out', exitCode }
  }
  if (ending.signal !== undefined) {
    return { ...base, ok: false, outcome: 'killed', signal: ending.signal, exitCode }
  }
  return { ...base, ok: exitCode === 0, outcome: 'completed', exitCode }
}

function checked(result: CommandResult, check: boolean | undefined): CommandResult {
  if (check === true && !result.ok) {
    throw new CommandError(result)
  }
  return result
}

function infoOf(context: WireContext): CommandInfo {
  return {
    id: context.id,
    pid: context.pid,
    running: context.running,
    kind: context.type === 'repl' ? 'interpreter' : 'command',
    command: context.command ?? [],
    language: context.alias,
    cwd: context.cwd,
    user: context.user,
    exitCode: context.exit_code,
    startedAt: new Date(context.created_at)
  }
}
