// A command that runs, held by its id.
//
// Output is followed as lines of a stream that says where in the output each piece stands. A broken
// connection is taken up again at that place, so nothing is lost or seen twice; a reader that is
// slow slows the process down instead of filling memory.
import { ByteCollector, decodeBase64, drain, encodeBase64, jsonLines } from './bytes.js'
import { checked, infoOf, resultOf } from './command_result.js'
import type {
  CommandInfo,
  CommandResult,
  Ending,
  OutputEvent,
  RunOptions,
  Signal,
  StdinData
} from './command_result.js'
import { AtollError, ConnectionError, ServerError } from './errors.js'
import { sleep } from './time.js'
import type { RequestOptions, Transport } from './transport.js'
import type { WireCommandEvent, WireContext } from './wire.js'

const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
const MAX_FAILURES = 5 // in a row, of following output
const LASTING_MS = 10_000 // a connection that lasted this long was good
const FIRST_PAUSE_MS = 100
const STDIN_PIECE_BYTES = 256 * 1024

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
  async *output(
    options: { from?: number; signal?: AbortSignal } = {}
  ): AsyncGenerator<OutputEvent> {
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
  protected async resizeTerminal(
    cols: number,
    rows: number,
    options: RequestOptions
  ): Promise<void> {
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
    const decoders = {
      stdout: new TextDecoder(),
      stderr: new TextDecoder(),
      pty: new TextDecoder()
    }
    let cursor = from
    for (let failures = 0; ;) {
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
