// Files in a sandbox. Contents pass through in pieces; a stream is never held in memory.
import { iterate } from './bytes.js'
import type { Bytes } from './bytes.js'
import { NotFoundError } from './errors.js'
import { glob, grep } from './search.js'
import type { GlobResult, GrepOptions, GrepResult, SearchOptions } from './search.js'
import { isBrowser } from './transport.js'
import type { Call, RequestOptions, Transport } from './transport.js'
import { FileWatch } from './watch.js'
import type { WatchOptions } from './watch.js'
import type { WireFile, WireUnpacked } from './wire.js'

export interface FileOptions extends RequestOptions {
  /** Whose rights count. Default: the template's user. */
  user?: string | undefined
}

export interface FileInfo {
  readonly name: string
  readonly path: string
  readonly type: 'file' | 'directory' | 'symlink' | 'other'
  readonly size: number
  /** Octal, such as `0644`. */
  readonly mode: string
  readonly modifiedAt: Date
  readonly uid: number
  readonly gid: number
  /** Of a symlink. */
  readonly target: string | undefined
}

export interface ReadOptions extends FileOptions {
  /** Only these bytes: from `start`, up to and without `end`. */
  range?: { start: number; end?: number } | undefined
}

export interface WriteOptions extends FileOptions {
  /** Octal text (`0755`) or a number (`0o755`). */
  mode?: string | number | undefined
  /** Replace this version only; if it is another by now, a ConflictError. */
  ifVersion?: string | undefined
  /** Only if there is no such file yet; else a ConflictError. */
  ifAbsent?: boolean | undefined
}

/** Contents to write. Anything that comes piece by piece is sent piece by piece. */
export type FileData =
  string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** What was in an archive. */
export type Unpacked = Readonly<WireUnpacked>

export class Files {
  readonly #transport: Transport
  readonly #path: string

  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport
    this.#path = `${sandboxPath}/files`
  }

  /** A file as text, or in another `format`. Relative paths start in the template's directory. */
  read(path: string, options?: ReadOptions & { format?: 'text' }): Promise<string>
  read(path: string, options: ReadOptions & { format: 'bytes' }): Promise<Uint8Array>
  read(path: string, options: ReadOptions & { format: 'blob' }): Promise<Blob>
  read(
    path: string,
    options: ReadOptions & { format: 'stream' }
  ): Promise<ReadableStream<Uint8Array>>
  async read(
    path: string,
    options: ReadOptions & { format?: 'text' | 'bytes' | 'blob' | 'stream' } = {}
  ): Promise<string | Uint8Array | Blob | ReadableStream<Uint8Array>> {
    const response = await this.#transport.send('GET', this.#path, {
      ...target(path, options),
      headers: rangeHeader(options.range)
    })
    switch (options.format ?? 'text') {
      case 'text':
        return response.text()
      case 'bytes':
        return new Uint8Array(await response.arrayBuffer())
      case 'blob':
        return response.blob()
      case 'stream':
        return response.body ?? new Blob([]).stream()
    }
  }

  /**
   * Creates or replaces a file, with its directories. It appears whole or not at all. Gives the new
   * version, for `ifVersion` of the next write.
   */
  async write(
    path: string,
    data: FileData,
    options: WriteOptions = {}
  ): Promise<{ readonly version: string | undefined }> {
    const { body, again } = await uploadBody(data)
    const conditional = options.ifVersion !== undefined || options.ifAbsent === true
    const response = await this.#transport.send('POST', this.#path, {
      ...target(path, options),
      headers: {
        'content-type': 'application/octet-stream',
        ...(options.ifVersion === undefined ? {} : { 'if-match': options.ifVersion }),
        ...(options.ifAbsent === true ? { 'if-none-match': '*' } : {})
      },
      body,
      idempotent: again && !conditional, // the second would fail because of the first
      requestTimeoutMs: options.requestTimeoutMs ?? 0
    })
    await response.arrayBuffer()
    if (options.mode !== undefined) {
      await this.chmod(path, options.mode, options)
    }
    return { version: response.headers.get('etag') ?? undefined }
  }

  /** Changes whenever the contents do. */
  async version(path: string, options: FileOptions = {}): Promise<string | undefined> {
    const response = await this.#transport.send('HEAD', this.#path, target(path, options))
    return response.headers.get('etag') ?? undefined
  }

  async list(path = '.', options: FileOptions = {}): Promise<FileInfo[]> {
    const { entries } = await this.#transport.json<{ entries: WireFile[] }>(
      'GET',
      `${this.#path}/list`,
      target(path, options)
    )
    return entries.map(fileInfo)
  }

  /** About the path itself: a symlink is not followed. */
  async stat(path: string, options: FileOptions = {}): Promise<FileInfo> {
    return fileInfo(
      await this.#transport.json<WireFile>('GET', `${this.#path}/stat`, target(path, options))
    )
  }

  async exists(path: string, options: FileOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options)
      return true
    } catch (error) {
      // A sandbox that does not exist is an error, not an answer.
      if (error instanceof NotFoundError && error.code === 'file_not_found') {
        return false
      }
      throw error
    }
  }

  async move(from: string, to: string, options: FileOptions = {}): Promise<void> {
    await this.#post('move', { source: from, destination: to }, options)
  }

  /** A file, or a directory with all that is in it. */
  async remove(path: string, options: FileOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', this.#path, target(path, options))
  }

  /** With its parents; one that is already there is no error. */
  async makeDir(path: string, options: FileOptions = {}): Promise<void> {
    const { query, ...rest } = target(path, options)
    await this.#transport.json('POST', this.#path, {
      ...rest,
      query: { ...query, mkdir: true, recursive: true },
      idempotent: true
    })
  }

  /** Mode as octal text (`0755`) or as a number (`0o755`). */
  async chmod(path: string, mode: string | number, options: FileOptions = {}): Promise<void> {
    const text = typeof mode === 'number' ? mode.toString(8).padStart(4, '0') : mode
    await this.#post('chmod', { path, mode: text }, options)
  }

  /** Names that match a glob such as `src/**\/*.ts`. */
  glob(pattern: string, options: SearchOptions = {}): Promise<GlobResult> {
    return glob(this.#transport, this.#path, pattern, options)
  }

  /** Lines that match a regular expression. */
  grep(pattern: string, options: GrepOptions = {}): Promise<GrepResult> {
    return grep(this.#transport, this.#path, pattern, options)
  }

  /** A tree as a tar archive that comes as it is read. */
  downloadArchive(
    path: string,
    options: FileOptions & { format?: 'tar' | 'tar.gz' } = {}
  ): Promise<ReadableStream<Uint8Array>> {
    const { query, ...rest } = target(path, options)
    const call = { ...rest, query: { ...query, format: options.format } }
    return this.#transport.stream('GET', `${this.#path}/archive`, call)
  }

  /** Unpacks a tar archive, compressed or not, below a directory. */
  async uploadArchive(
    path: string,
    archive: Exclude<FileData, string>,
    options: FileOptions = {}
  ): Promise<Unpacked> {
    const { body, again } = await uploadBody(archive)
    return this.#transport.json<Unpacked>('PUT', `${this.#path}/archive`, {
      ...target(path, options),
      headers: { 'content-type': 'application/x-tar' },
      body,
      idempotent: again,
      requestTimeoutMs: options.requestTimeoutMs ?? 0
    })
  }

  /** Watches a file or directory. From its return on nothing is missed. */
  watch(path: string, options: WatchOptions = {}): Promise<FileWatch> {
    return FileWatch.open(this.#transport, this.#path, path, options)
  }

  async #post(verb: string, fields: object, options: FileOptions): Promise<void> {
    const { user, ...request } = options
    await this.#transport.json('POST', `${this.#path}/${verb}`, {
      ...request,
      json: { ...fields, ...(user === undefined ? {} : { user }) }
    })
  }
}

function target(path: string, options: FileOptions): Call & { query: NonNullable<Call['query']> } {
  const { signal, requestTimeoutMs, user } = options
  return { signal, requestTimeoutMs, query: { path, user } }
}

function rangeHeader(range: ReadOptions['range']): Record<string, string> {
  if (range === undefined) {
    return {}
  }
  return { range: `bytes=${range.start}-${range.end === undefined ? '' : range.end - 1}` }
}

/** A body for fetch, and whether it can be sent a second time. */
export async function uploadBody(data: FileData): Promise<{ body: BodyInit; again: boolean }> {
  if (typeof data === 'string' || data instanceof ArrayBuffer || data instanceof Blob) {
    return { body: data, again: true }
  }
  if (data instanceof Uint8Array) {
    return { body: data as Bytes, again: true }
  }
  const pieces = data instanceof ReadableStream ? iterate(data) : data
  if (isBrowser()) {
    // Browsers send streams over HTTP/2 only, if at all; a Blob may live on disk.
    const parts: Bytes[] = []
    for await (const piece of pieces) {
      parts.push(piece as Bytes)
    }
    return { body: new Blob(parts), again: true }
  }
  return { body: streamOf(pieces), again: false }
}

export function streamOf(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await iterator.next()
        if (done === true) {
          controller.close()
        } else {
          controller.enqueue(value)
        }
      },
      async cancel() {
        await iterator.return?.()
      }
    },
    { highWaterMark: 0 }
  )
}

export function fileInfo(file: WireFile): FileInfo {
  return {
    name: file.name,
    path: file.path,
    type: fileType(file.type),
    size: file.size,
    mode: file.mode,
    modifiedAt: new Date(file.mod_time),
    uid: file.uid,
    gid: file.gid,
    target: file.link_target
  }
}

export function fileType(type: WireFile['type']): FileInfo['type'] {
  return type === 'dir' ? 'directory' : type
}
