// How commands are described: what may be asked for, and how they end.
import { AtollError } from './errors.js'
import type { RequestOptions } from './transport.js'
import type { WireContext, WireExit } from './wire.js'

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

export interface ResultBase {
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
  | (ResultBase & {
      readonly outcome: 'killed'
      readonly signal: number
      readonly exitCode: number
    })
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

/** How following a command ended. */
export type Ending = WireExit | { lost: AtollError; cursor: number }

export function resultOf(ending: Ending, base: Omit<ResultBase, 'ok'>): CommandResult {
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

export function checked(result: CommandResult, check: boolean | undefined): CommandResult {
  if (check === true && !result.ok) {
    throw new CommandError(result)
  }
  return result
}

export function infoOf(context: WireContext): CommandInfo {
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
