// Names and lines below a directory, searched where the files are.
import { fileType } from './files.js'
import type { FileInfo, FileOptions } from './files.js'
import type { Transport } from './transport.js'
import type { WireGlobResult, WireGrepResult } from './wire.js'

export interface SearchOptions extends FileOptions {
  /** Where to begin. Default: the template's directory. */
  path?: string | undefined
  /** Globs of what to leave out; a name alone means at any depth, such as `node_modules`. */
  exclude?: readonly string[] | undefined
  ignoreCase?: boolean | undefined
  /** Default 1000, at most 10,000. */
  maxResults?: number | undefined
  /** Then the search ends with what it has. Default 30 s. */
  timeoutMs?: number | undefined
}

export interface GrepOptions extends SearchOptions {
  /** The pattern is text, not a regular expression. */
  fixed?: boolean | undefined
  /** Globs of the files to look into. Default: all. */
  include?: readonly string[] | undefined
  /** Lines around each match. */
  context?: number | undefined
  /** Larger files are passed over. */
  maxFileBytes?: number | undefined
}

interface Completeness {
  /** There is more than this. */
  readonly truncated: boolean
  /** Because the time was over. */
  readonly timedOut: boolean
}

export interface GlobResult extends Completeness {
  readonly entries: readonly Pick<FileInfo, 'path' | 'type' | 'size'>[]
}

export interface GrepMatch {
  readonly path: string
  /** From 1. */
  readonly line: number
  readonly text: string
  /** Only stands near a match. */
  readonly isContext: boolean
}

export interface GrepResult extends Completeness {
  readonly matches: readonly GrepMatch[]
  /** Too large or not readable. */
  readonly skippedFiles: number
}

const SPARE_MS = 15_000 // for the way, beyond the time of the search itself
const DEFAULT_TIMEOUT_MS = 30_000

export async function glob(
  transport: Transport,
  filesPath: string,
  pattern: string,
  options: SearchOptions
): Promise<GlobResult> {
  const wire = await transport.json<WireGlobResult>('GET', `${filesPath}/glob`, {
    ...limits(options),
    query: {
      pattern,
      path: options.path,
      user: options.user,
      exclude: options.exclude,
      ignore_case: options.ignoreCase,
      max_results: options.maxResults,
      timeout_ms: options.timeoutMs
    }
  })
  return {
    entries: wire.entries.map(({ path, type, size }) => ({ path, type: fileType(type), size })),
    truncated: wire.truncated,
    timedOut: wire.timed_out
  }
}

export async function grep(
  transport: Transport,
  filesPath: string,
  pattern: string,
  options: GrepOptions
): Promise<GrepResult> {
  const wire = await transport.json<WireGrepResult>('POST', `${filesPath}/grep`, {
    ...limits(options),
    idempotent: true,
    json: {
      pattern, // undefined fields are left out by JSON
      path: options.path,
      user: options.user,
      include: options.include,
      exclude: options.exclude,
      fixed: options.fixed,
      ignore_case: options.ignoreCase,
      context: options.context,
      max_results: options.maxResults,
      max_file_bytes: options.maxFileBytes,
      timeout_ms: options.timeoutMs
    }
  })
  return {
    matches: wire.matches.map(({ path, line, text, context }) => ({
      path,
      line,
      text,
      isContext: context ?? false
    })),
    truncated: wire.truncated,
    timedOut: wire.timed_out,
    skippedFiles: wire.skipped_files
  }
}

function limits(options: SearchOptions): Pick<FileOptions, 'signal' | 'requestTimeoutMs'> {
  const searchMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS
  return {
    signal: options.signal,
    requestTimeoutMs: options.requestTimeoutMs ?? searchMs + SPARE_MS
  }
}
