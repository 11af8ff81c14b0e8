// Small things about bytes that every runtime does differently.

export type Bytes = Uint8Array<ArrayBuffer>

export function decodeBase64(text: string): Bytes {
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i)
  }
  return bytes
}

export function encodeBase64(bytes: Uint8Array): string {
  const PIECE = 0x8000 // String.fromCharCode takes its arguments on the stack
  let binary = ''
  for (let i = 0; i < bytes.length; i += PIECE) {
    binary += String.fromCharCode(...bytes.subarray(i, i + PIECE))
  }
  return btoa(binary)
}

/** Keeps at most `limit` bytes of what is added and knows whether that was all. */
export class ByteCollector {
  readonly #pieces: Uint8Array[] = []
  #size = 0
  truncated = false

  constructor(readonly limit: number) {}

  add(bytes: Uint8Array): void {
    const room = this.limit - this.#size
    if (bytes.length > room) {
      this.truncated = true
      bytes = bytes.subarray(0, room)
    }
    if (bytes.length > 0) {
      this.#pieces.push(bytes)
      this.#size += bytes.length
    }
  }

  text(): string {
    const decoder = new TextDecoder()
    let text = ''
    for (const piece of this.#pieces) {
      text += decoder.decode(piece, { stream: true })
    }
    return text + decoder.decode()
  }
}

/** Async iteration of a web stream where the runtime's own is missing; leaving early cancels it. */
export async function* iterate(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  let finished = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) {
        finished = true
        return
      }
      yield value
    }
  } finally {
    if (!finished) {
      await reader.cancel().catch(() => undefined)
    }
    reader.releaseLock()
  }
}

const MAX_LINE_BYTES = 64 * 1024 * 1024

/** The lines of an NDJSON stream. Reads no faster than its consumer. */
export async function* jsonLines<T>(stream: ReadableStream<Uint8Array>): AsyncGenerator<T> {
  const decoder = new TextDecoder()
  let pending: string[] = []
  let size = 0
  for await (const bytes of iterate(stream)) {
    const pieces = decoder.decode(bytes, { stream: true }).split('\n')
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) {
        const line = pending.join('')
        pending = []
        size = 0
        if (line !== '') {
          yield JSON.parse(line) as T
        }
      }
      pending.push(piece)
      size += piece.length
    }
    if (size > MAX_LINE_BYTES) {
      throw new RangeError('the server sent a line that is too long')
    }
  }
  const rest = pending.join('')
  if (rest !== '') {
    yield JSON.parse(rest) as T
  }
}

/** Reads what is left, which is nothing but the end: the connection can then be used again. */
export async function drain(lines: AsyncGenerator<unknown>): Promise<void> {
  try {
    while ((await lines.next()).done !== true);
  } catch {
    // All that mattered has been read.
  }
}
