// Changes of files as they happen.
import { jsonLines } from './bytes.js'
import { ConnectionError } from './errors.js'
import { linkAbort } from './time.js'
import type { LinkedAbort } from './time.js'
import type { RequestOptions, Transport } from './transport.js'
import type { WireWatchLine } from './wire.js'

export interface WatchOptions extends RequestOptions {
  /** Also below, with directories that appear later. */
  recursive?: boolean | undefined
  user?: string | undefined
}

export interface WatchEvent {
  /**
   * A rename is `rename` of the old path and `create` of the new one. `overflow`: so much happened
   * that some of it was missed; look again.
   */
  readonly type: 'create' | 'write' | 'remove' | 'rename' | 'chmod' | 'overflow'
  readonly path: string
}

/** Iterate it; leaving the loop, `close` or `await using` ends it. */
export class FileWatch implements AsyncIterable<WatchEvent> {
  readonly #lines: AsyncGenerator<WireWatchLine>
  readonly #ending: LinkedAbort
  #closed = false

  private constructor(lines: AsyncGenerator<WireWatchLine>, ending: LinkedAbort) {
    this.#lines = lines
    this.#ending = ending
  }

  /** @internal Returns when changes are being watched for. */
  static async open(
    transport: Transport,
    filesPath: string,
    path: string,
    options: WatchOptions
  ): Promise<FileWatch> {
    const { signal, requestTimeoutMs, recursive, user } = options
    const ending = linkAbort(signal)
    const stream = await transport.stream('GET', `${filesPath}/watch`, {
      query: { path, recursive, user },
      headers: { accept: 'application/x-ndjson' },
      signal: ending.signal,
      requestTimeoutMs
    })
    const lines = jsonLines<WireWatchLine>(stream)
    const first = await lines.next()
    if (first.done === true || first.value.type !== 'subscribed') {
      throw new ConnectionError('the watch broke off before it began')
    }
    return new FileWatch(lines, ending)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent, void> {
    try {
      for await (const line of this.#lines) {
        if (line.type === 'event') {
          yield { type: line.event, path: line.path }
        }
      }
      throw new ConnectionError('the watch broke off; look again and watch anew')
    } catch (error) {
      if (!this.#closed) {
        throw error
      }
    } finally {
      this.close()
    }
  }

  close(): void {
    this.#closed = true
    this.#ending.abort(undefined)
    this.#ending.release()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }
}
