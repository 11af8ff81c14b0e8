// Terminals.
import { CommandHandle } from './command_handle.js'
import type { Command, StartOptions } from './command_result.js'
import { contextFields, createContext } from './commands.js'
import type { RequestOptions, Transport } from './transport.js'

export interface PtyOptions extends Omit<StartOptions, 'stdin'> {
  /** Default 80. */
  cols?: number | undefined
  /** Default 24. */
  rows?: number | undefined
  /** Default: a login shell. */
  command?: Command | undefined
}

/** A terminal: iterate it for what it shows, `write` what is typed. */
export class PtyHandle extends CommandHandle {
  async resize(size: { cols: number; rows: number }, options: RequestOptions = {}): Promise<void> {
    await this.resizeTerminal(size.cols, size.rows, options)
  }
}

export class Pty {
  readonly #transport: Transport
  readonly #path: string

  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport
    this.#path = `${sandboxPath}/contexts`
  }

  async create(options: PtyOptions = {}): Promise<PtyHandle> {
    const command = options.command ?? [
      '/bin/sh',
      '-c',
      'exec "$(command -v bash || echo /bin/sh)" -l'
    ]
    const env = { TERM: 'xterm-256color', ...options.env }
    const context = await createContext(
      this.#transport,
      this.#path,
      {
        ...contextFields(command, { ...options, env }, true),
        pty_size: { cols: options.cols ?? 80, rows: options.rows ?? 24 }
      },
      options
    )
    return new PtyHandle(this.#transport, this.#path, context.id, context.pid)
  }

  /** A terminal that was opened elsewhere or earlier, from its beginning or from a cursor. */
  async attach(id: string, options: { from?: number } & RequestOptions = {}): Promise<PtyHandle> {
    const { pid } = await this.#transport.json<{ pid: number }>(
      'GET',
      `${this.#path}/${id}`,
      options
    )
    return new PtyHandle(this.#transport, this.#path, id, pid, { from: options.from })
  }
}
