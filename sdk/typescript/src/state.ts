// What a sandbox is beyond the moment: pausing, snapshots, forks, changes.
import { jsonLines } from './bytes.js'
import { seconds } from './time.js'
import type { Duration } from './time.js'
import { newIdempotencyKey } from './transport.js'
import type { RequestOptions, Transport } from './transport.js'
import { uploadBody } from './files.js'
import type { FileData } from './files.js'
import type { WireChange, WireFork, WirePause, WireResume, WireSnapshot, WireTree } from './wire.js'

export interface PauseOptions extends RequestOptions {
  /**
   * What becomes of the processes: `true` keeps them frozen in memory, `'disk'` writes them to disk
   * and gives the memory back, `false` ends them. Default `true`.
   */
  memory?: boolean | 'disk' | undefined
}

export interface Paused {
  /** Where the processes are now. */
  readonly memory: WirePause['memory']
  /** Why they did not go to disk. */
  readonly reason: string | undefined
}

export interface Resumed {
  /** `filesystem`: the processes could not be kept and it began again with its files. */
  readonly restored: WireResume['restored']
  /** Why not from memory. */
  readonly reason: string | undefined
}

export interface SnapshotOptions extends RequestOptions {
  description?: string | undefined
  /** It is deleted after this long. */
  expiresIn?: Duration | undefined
}

export interface SnapshotInfo {
  readonly id: string
  readonly sandboxId: string
  readonly name: string
  readonly description: string
  readonly template: string
  readonly createdAt: Date
  readonly expiresAt: Date | undefined
}

export interface ForkOptions extends RequestOptions {
  /**
   * What comes along besides the files: `'interpreters'` their variables, `true` all that runs.
   * Default nothing.
   */
  memory?: boolean | 'interpreters' | undefined
  /** Default true; else they are paused and wake up when they are used. */
  start?: boolean | undefined
  ttl?: Duration | undefined
  hardTtl?: Duration | undefined
}

/** What became of an interpreter of the parent in a fork with `memory: 'interpreters'`. */
export interface CarriedInterpreter {
  /** The same in the parent and in every child. */
  readonly contextId: string
  readonly alias: string
  /** Every child has it. */
  readonly carried: boolean
  /** Why not. */
  readonly reason: string | undefined
  /** What of it was left behind. */
  readonly note: string | undefined
  readonly memoryBytes: number | undefined
  /** Children that do not have it. */
  readonly missingIn: readonly string[]
}

/** @internal */
export interface Forked {
  readonly ids: string[]
  readonly interpreters: CarriedInterpreter[]
}

export interface TreeNode {
  readonly id: string
  readonly kind: 'sandbox' | 'snapshot'
  readonly parentId: string | undefined
  /** 0 begins the next tree. */
  readonly depth: number
  readonly cause: WireTree['nodes'][number]['cause']
  readonly name: string | undefined
  readonly template: string
  /** Of a sandbox that is there. */
  readonly status: string | undefined
  readonly createdAt: Date
  readonly deletedAt: Date | undefined
}

export interface DiffOptions extends RequestOptions {
  /** A snapshot or a sandbox, by its id; without it the template. */
  from?: string | undefined
}

/** One path that is not as it was. */
export interface Change {
  readonly change: 'added' | 'changed' | 'removed'
  readonly path: string
  readonly type: string
  readonly size: number
  readonly mode: string
}

export interface ExportOptions extends RequestOptions {
  /** Only the layer with what the sandbox changed. */
  layerOnly?: boolean | undefined
  compression?: 'gzip' | 'zstd' | 'none' | undefined
}

// A dump writes all memory, a hundred forks make a hundred sandboxes.
const STATE_TIMEOUT_MS = 600_000
const SNAPSHOTS = '/api/v1/sandbox-rootfs-snapshots'

/** @internal What `Sandbox` does with these; `path` is the sandbox's. */
export class State {
  readonly #transport: Transport
  readonly #path: string

  constructor(transport: Transport, path: string) {
    this.#transport = transport
    this.#path = path
  }

  async pause({ memory = true, ...options }: PauseOptions): Promise<Paused> {
    const answer = await this.#change<WirePause>('pause', { memory }, options)
    return { memory: answer.memory, reason: answer.reason }
  }

  async resume(options: RequestOptions): Promise<Resumed> {
    const { restored, reason } = await this.#change<WireResume>('resume', {}, options)
    return { restored, reason }
  }

  async snapshot(name: string | undefined, options: SnapshotOptions): Promise<SnapshotInfo> {
    const { description, expiresIn, ...request } = options
    const json = {
      ...(name === undefined ? {} : { name }),
      ...(description === undefined ? {} : { description }),
      ...(expiresIn === undefined
        ? {}
        : { expires_at: new Date(Date.now() + seconds(expiresIn) * 1000).toISOString() })
    }
    const call = { requestTimeoutMs: STATE_TIMEOUT_MS, ...request, json }
    return snapshotInfo(await this.#transport.json('POST', `${this.#path}/snapshots`, call))
  }

  async snapshots(options: RequestOptions): Promise<SnapshotInfo[]> {
    const { snapshots } = await this.#transport.json<{ snapshots: WireSnapshot[] }>(
      'GET',
      `${this.#path}/snapshots`,
      options
    )
    return snapshots.map(snapshotInfo)
  }

  async restore(snapshotId: string, force: boolean, options: RequestOptions): Promise<void> {
    // Not idempotent: once more would take away what was written since.
    await this.#transport.json('POST', `${this.#path}/rootfs/restore`, {
      requestTimeoutMs: STATE_TIMEOUT_MS,
      ...options,
      json: { snapshot_id: snapshotId, force }
    })
  }

  async fork(count: number, options: ForkOptions): Promise<Forked> {
    const { memory = false, start = true, ttl, hardTtl, ...request } = options
    const config = {
      ...(ttl === undefined ? {} : { ttl: seconds(ttl) }),
      ...(hardTtl === undefined ? {} : { hard_ttl: seconds(hardTtl) })
    }
    const json = { count, start, config, ...(memory === false ? {} : { memory }) }
    const answer = await this.#transport.json<WireFork>('POST', `${this.#path}/fork`, {
      requestTimeoutMs: STATE_TIMEOUT_MS,
      ...request,
      json,
      idempotencyKey: newIdempotencyKey()
    })
    return {
      ids: answer.sandboxes.map(each => each.id),
      interpreters: (answer.interpreters ?? []).map(each => ({
        contextId: each.context_id,
        alias: each.alias,
        carried: each.carried,
        reason: each.reason,
        note: each.note,
        memoryBytes: each.memory_bytes,
        missingIn: each.missing_in ?? []
      }))
    }
  }

  async tree(options: RequestOptions): Promise<TreeNode[]> {
    return treeNodes(await this.#transport.json('GET', `${this.#path}/tree`, options))
  }

  diff(options: DiffOptions): AsyncGenerator<Change> {
    return diff(this.#transport, this.#path, options)
  }

  diffArchive(options: DiffOptions): Promise<ReadableStream<Uint8Array>> {
    return diffArchive(this.#transport, this.#path, options)
  }

  export(options: ExportOptions): Promise<ReadableStream<Uint8Array>> {
    return exported(this.#transport, this.#path, options)
  }

  // Once more does what once does: it stands still, or runs.
  #change<T>(verb: string, json: object, options: RequestOptions): Promise<T> {
    const call = { requestTimeoutMs: STATE_TIMEOUT_MS, ...options, json, idempotent: true }
    return this.#transport.json<T>('POST', `${this.#path}/${verb}`, call)
  }
}

/** Moments of sandboxes, by their id; they outlive their sandbox. */
export class Snapshots {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  async get(id: string, options: RequestOptions = {}): Promise<SnapshotInfo> {
    return snapshotInfo(await this.#transport.json('GET', pathOf(id), options))
  }

  /** What was made from it is not touched. */
  async delete(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', pathOf(id), options)
  }

  /** What it has that its template, or another moment, had not. */
  diff(id: string, options: DiffOptions = {}): AsyncGenerator<Change> {
    return diff(this.#transport, pathOf(id), options)
  }

  /** Added and changed files as a tar. */
  diffArchive(id: string, options: DiffOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return diffArchive(this.#transport, pathOf(id), options)
  }

  /** As an OCI image archive. */
  export(id: string, options: ExportOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return exported(this.#transport, pathOf(id), options)
  }

  /** Makes a snapshot of an image archive, such as `export` or `docker save` give. */
  async import(
    archive: Exclude<FileData, string>,
    options: RequestOptions & { name?: string; description?: string; template?: string } = {}
  ): Promise<SnapshotInfo> {
    const { name, description, template, ...request } = options
    const { body } = await uploadBody(archive)
    return snapshotInfo(
      await this.#transport.json('POST', `${SNAPSHOTS}/import`, {
        ...request,
        query: { name, description, template_id: template },
        headers: { 'content-type': 'application/x-tar' },
        body,
        requestTimeoutMs: request.requestTimeoutMs ?? 0
      })
    )
  }

  /** All trees: which sandbox or snapshot came from which. */
  async trees(options: RequestOptions = {}): Promise<TreeNode[]> {
    return treeNodes(await this.#transport.json('GET', '/api/v1/sandbox-trees', options))
  }
}

async function* diff(
  transport: Transport,
  path: string,
  { from, ...options }: DiffOptions
): AsyncGenerator<Change> {
  const query = { from, format: 'ndjson' }
  const stream = await transport.stream('GET', `${path}/diff`, { ...options, query })
  for await (const line of jsonLines<WireChange>(stream)) {
    yield { change: line.change, path: line.path, type: line.type, size: line.size, mode: line.mode }
  }
}

function diffArchive(
  transport: Transport,
  path: string,
  { from, ...options }: DiffOptions
): Promise<ReadableStream<Uint8Array>> {
  return transport.stream('GET', `${path}/diff`, { ...options, query: { from, format: 'tar' } })
}

function exported(
  transport: Transport,
  path: string,
  { layerOnly, compression, ...options }: ExportOptions
): Promise<ReadableStream<Uint8Array>> {
  const query = { layer_only: layerOnly, compression }
  return transport.stream('GET', `${path}/export`, { ...options, query })
}

function snapshotInfo(snapshot: WireSnapshot): SnapshotInfo {
  return {
    id: snapshot.id,
    sandboxId: snapshot.sandbox_id,
    name: snapshot.name,
    description: snapshot.description,
    template: snapshot.template_id,
    createdAt: new Date(snapshot.created_at),
    expiresAt: date(snapshot.expires_at)
  }
}

function treeNodes({ nodes }: WireTree): TreeNode[] {
  return nodes.map(node => ({
    id: node.id,
    kind: node.kind,
    parentId: node.parent_id ?? undefined,
    depth: node.depth,
    cause: node.cause,
    name: node.name ?? undefined,
    template: node.template_id,
    status: node.status ?? undefined,
    createdAt: new Date(node.created_at),
    deletedAt: date(node.deleted_at)
  }))
}

function date(text: string | null | undefined): Date | undefined {
  return text === null || text === undefined ? undefined : new Date(text)
}

function pathOf(id: string): string {
  return `${SNAPSHOTS}/${encodeURIComponent(id)}`
}
