// Commands: run to the end, or started in the background.
import { jsonLines } from './bytes.js'
import { CommandHandle } from './command_handle.js'
import { checked, CommandError, infoOf } from './command_result.js'
import type {
  Command,
  CommandInfo,
  CommandResult,
  RunOptions,
  StartOptions,
  StdinData
} from './command_result.js'
import { AtollError, ConnectionError } from './errors.js'
import { newIdempotencyKey } from './transport.js'
import type { Call, RequestOptions, Transport } from './transport.js'
import type { WireCommandEvent, WireContext, WireContextCreate } from './wire.js'

const KILL_TIMEOUT_MS = 10_000
const NEVER_STARTED = new Set([
  'command_not_found',
  'command_not_executable',
  'cwd_not_found',
  'user_not_found',
  'interpreter_not_found'
])

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
  async attach(
    id: string,
    options: RequestOptions & { from?: number } = {}
  ): Promise<CommandHandle> {
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
  const argv = typeof command === 'string' ? [options.shell ?? 'bash', '-c', command] : [...command]
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
