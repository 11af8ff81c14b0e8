// A sandbox and everything in it.
import { SandboxFlows } from './audit.js'
import { CodeContext } from './code.js'
import type { ContextOptions, Execution, Language, RunCodeOptions } from './code.js'
import { Atoll } from './client.js'
import { Commands } from './commands.js'
import { ConflictError, NotFoundError } from './errors.js'
import { Files } from './files.js'
import { metricsCall, sandboxMetrics } from './metrics.js'
import type { MetricsOptions, SandboxMetrics } from './metrics.js'
import { Pty } from './pty.js'
import { configOf, sandboxInfo } from './sandboxes.js'
import type {
  CreateOptions,
  ListOptions,
  SandboxInfo,
  Sandboxes,
  SandboxSettings
} from './sandboxes.js'
import { Previews, Services } from './services.js'
import { State } from './state.js'
import type {
  CarriedInterpreter,
  Change,
  DiffOptions,
  ExportOptions,
  ForkOptions,
  Paused,
  PauseOptions,
  Resumed,
  SnapshotInfo,
  SnapshotOptions,
  TreeNode
} from './state.js'
import { seconds } from './time.js'
import type { Duration } from './time.js'
import type { ConnectionOptions, RequestOptions, Transport } from './transport.js'
import type {
  WireEffectiveNetworkPolicy,
  WireNetworkPolicy,
  WireSandbox,
  WireSandboxMetrics
} from './wire.js'

/** Options of the shortcuts on `Sandbox`, which make their own client. */
export type WithConnection<T> = T & ConnectionOptions

export interface RunCodeInSandboxOptions extends RunCodeOptions {
  /** Which of the sandbox's own interpreters. Default `python`. */
  language?: Language | undefined
  /** Another interpreter, of `createContext`. */
  context?: CodeContext | undefined
}

export class Sandbox {
  readonly commands: Commands
  readonly files: Files
  readonly pty: Pty
  /** What it sent out, and what it was refused. */
  readonly flows: SandboxFlows
  /** What the outside may reach of it. */
  readonly services: Services
  /** Private looks at its ports. */
  readonly previews: Previews
  readonly #transport: Transport
  readonly #path: string
  readonly #disposable: boolean
  readonly #state: State
  readonly #interpreters = new Map<string, Promise<CodeContext>>()

  /** @internal Use `Sandbox.create` or `Sandbox.connect`. */
  constructor(
    transport: Transport,
    readonly id: string,
    disposable: boolean,
    /** Of a fork with `memory: 'interpreters'`: what became of each interpreter of the parent. */
    readonly forkedInterpreters: readonly CarriedInterpreter[] = []
  ) {
    this.#transport = transport
    this.#path = `/api/v1/sandboxes/${encodeURIComponent(id)}`
    this.#disposable = disposable
    this.commands = new Commands(transport, this.#path)
    this.files = new Files(transport, this.#path)
    this.pty = new Pty(transport, this.#path)
    this.flows = new SandboxFlows(transport, `${this.#path}/network`)
    this.services = new Services(transport, this.#path)
    this.previews = new Previews(transport, this.#path)
    this.#state = new State(transport, this.#path)
  }

  /** A new sandbox. `await using` deletes it at the end of the block. */
  static create(options: WithConnection<CreateOptions> = {}): Promise<Sandbox> {
    return new Atoll(options).sandboxes.create(options)
  }

  /** Several at once, in one request: all or none, or with `partial` as many as there can be. */
  static createMany(
    count: number,
    options: WithConnection<Parameters<Sandboxes['createMany']>[1]> = {}
  ): Promise<Sandbox[]> {
    return new Atoll(options).sandboxes.createMany(count, options)
  }

  /** The sandbox of that name, made if there is none. `await using` leaves it alone. */
  static getOrCreate(
    name: string,
    options: WithConnection<Omit<CreateOptions, 'name'>> = {}
  ): Promise<Sandbox> {
    return new Atoll(options).sandboxes.getOrCreate(name, options)
  }

  /** A sandbox that exists. `await using` leaves it alone. */
  static connect(id: string, options: WithConnection<RequestOptions> = {}): Promise<Sandbox> {
    return new Atoll(options).sandboxes.connect(id, options)
  }

  /** All sandboxes, newest first, fetched as you iterate. */
  static list(options: WithConnection<ListOptions> = {}): AsyncGenerator<SandboxInfo> {
    return new Atoll(options).sandboxes.list(options)
  }

  /** Deletes a sandbox by its id. One that is gone is no error. */
  static kill(id: string, options: WithConnection<RequestOptions> = {}): Promise<void> {
    return new Atoll(options).sandboxes.kill(id, options)
  }

  /** A sandbox for the time of a function: for runtimes and styles without `await using`. */
  static async with<T>(use: (sandbox: Sandbox) => Promise<T> | T): Promise<T>
  static async with<T>(
    options: WithConnection<CreateOptions>,
    use: (sandbox: Sandbox) => Promise<T> | T
  ): Promise<T>
  static async with<T>(
    first: WithConnection<CreateOptions> | ((sandbox: Sandbox) => Promise<T> | T),
    second?: (sandbox: Sandbox) => Promise<T> | T
  ): Promise<T> {
    const options = typeof first === 'function' ? {} : first
    const use = typeof first === 'function' ? first : second
    if (use === undefined) {
      throw new TypeError('Sandbox.with needs a function to run')
    }
    const sandbox = await Sandbox.create(options)
    let value: T
    try {
      value = await use(sandbox)
    } catch (error) {
      await sandbox.kill().catch(() => undefined) // what went wrong first is what counts
      throw error
    }
    await sandbox.kill()
    return value
  }

  /** The policy that it is under: what it may reach, and the floors below. */
  async network(options: RequestOptions = {}): Promise<WireEffectiveNetworkPolicy> {
    return this.#transport.json('GET', `${this.#path}/network`, options)
  }

  /**
   * Replaces the policy, at once and also for what is open. `credentialBindings` and `groups` that
   * are left out stay as they were.
   */
  async setNetwork(
    policy: WireNetworkPolicy,
    options: RequestOptions = {}
  ): Promise<WireEffectiveNetworkPolicy> {
    return this.#transport.json('PUT', `${this.#path}/network`, { ...options, json: policy })
  }

  async info(options: RequestOptions = {}): Promise<SandboxInfo> {
    return sandboxInfo(await this.#transport.json<WireSandbox>('GET', this.#path, options))
  }

  /**
   * Changes what is given and leaves the rest; limits apply at once to what runs. `env` and
   * `labels` replace the old ones.
   */
  async update(settings: SandboxSettings, options: RequestOptions = {}): Promise<SandboxInfo> {
    const json = { config: configOf(settings) }
    return sandboxInfo(await this.#transport.json('PUT', this.#path, { ...options, json }))
  }

  /** Starts its times again, with another ttl if given. */
  async refresh(ttl?: Duration, options: RequestOptions = {}): Promise<void> {
    const json = ttl === undefined ? {} : { duration: seconds(ttl) }
    await this.#transport.json('POST', `${this.#path}/refresh`, {
      ...options,
      json,
      idempotent: true
    })
  }

  /** What it uses: now, and over the last hour. */
  async metrics(options: MetricsOptions = {}): Promise<SandboxMetrics> {
    return sandboxMetrics(
      await this.#transport.json<WireSandboxMetrics>(
        'GET',
        `${this.#path}/metrics`,
        metricsCall(options)
      )
    )
  }

  /** Stops every process where it is; the files are on disk then. Using it wakes it up. */
  pause(options: PauseOptions = {}): Promise<Paused> {
    return this.#state.pause(options)
  }

  /** Lets it go on, and says from what. */
  resume(options: RequestOptions = {}): Promise<Resumed> {
    return this.#state.resume(options)
  }

  /** Keeps the files as they are now: for `restore`, or `create({ snapshotId })`. */
  snapshot(name?: string, options: SnapshotOptions = {}): Promise<SnapshotInfo> {
    return this.#state.snapshot(name, options)
  }

  /** Those of this sandbox, oldest first. */
  snapshots(options: RequestOptions = {}): Promise<SnapshotInfo[]> {
    return this.#state.snapshots(options)
  }

  /** Gives it the files of a snapshot. It must be paused; with `force` it is stopped for it. */
  restore(
    snapshotId: string,
    { force = false, ...options }: RequestOptions & { force?: boolean } = {}
  ): Promise<void> {
    return this.#state.restore(snapshotId, force, options)
  }

  /** A new sandbox that begins as this one is now. `await using` deletes it. */
  async fork(options: ForkOptions = {}): Promise<Sandbox> {
    const [child] = await this.forkMany(1, options)
    return child as Sandbox
  }

  /** Up to a hundred of the same moment. */
  async forkMany(count: number, options: ForkOptions = {}): Promise<Sandbox[]> {
    const { ids, interpreters } = await this.#state.fork(count, options)
    return ids.map(id => new Sandbox(this.#transport, id, true, interpreters))
  }

  /** The tree it is in: which sandbox or snapshot came from which. */
  tree(options: RequestOptions = {}): Promise<TreeNode[]> {
    return this.#state.tree(options)
  }

  /** Paths that are not as in its template, or in another sandbox or snapshot. */
  diff(options: DiffOptions = {}): AsyncGenerator<Change> {
    return this.#state.diff(options)
  }

  /** The files of `diff` as a tar. */
  diffArchive(options: DiffOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#state.diffArchive(options)
  }

  /** Its files as an OCI image archive. */
  export(options: ExportOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#state.export(options)
  }

  /** Deletes the sandbox with all that is in it. One that is gone is no error. */
  async kill(options: RequestOptions = {}): Promise<void> {
    try {
      await this.#transport.json('DELETE', this.#path, options)
    } catch (error) {
      if (!(error instanceof NotFoundError)) {
        throw error
      }
    }
  }

  /**
   * Runs code in an interpreter that keeps its state between calls, one per language, started at
   * its first use.
   */
  async runCode(code: string, options: RunCodeInSandboxOptions = {}): Promise<Execution> {
    if (options.context !== undefined) {
      return options.context.run(code, options)
    }
    const language = options.language ?? 'python'
    try {
      return await this.#runIn(language, code, options)
    } catch (error) {
      // The interpreter has ended since; this code never ran.
      const gone = error instanceof NotFoundError || error instanceof ConflictError
      if (!gone || !ENDED.has(error.code ?? '')) {
        throw error
      }
      this.#interpreters.delete(language)
      return await this.#runIn(language, code, options)
    }
  }

  /** Another interpreter with a state of its own. */
  createContext(options: ContextOptions = {}): Promise<CodeContext> {
    return CodeContext.create(this.#transport, `${this.#path}/contexts`, options)
  }

  /** An interpreter that was made elsewhere or earlier, with its state. */
  attachContext(id: string, options: RequestOptions = {}): Promise<CodeContext> {
    return CodeContext.attach(this.#transport, `${this.#path}/contexts`, id, options)
  }

  async #runIn(
    language: string,
    code: string,
    options: RunCodeInSandboxOptions
  ): Promise<Execution> {
    let starting = this.#interpreters.get(language)
    if (starting === undefined) {
      starting = this.createContext({ language })
      this.#interpreters.set(language, starting)
      starting.catch(() => this.#interpreters.delete(language))
    }
    const context = await starting
    const execution = await context.run(code, options)
    if (!execution.running) {
      this.#interpreters.delete(language)
    }
    return execution
  }

  /** Deletes a sandbox that was made by `create`; leaves one that was there before. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#disposable) {
      await this.kill()
    }
  }
}

const ENDED = new Set(['context_not_found', 'process_finished'])
