// Volumes: directories that outlive sandboxes and are mounted into them.
import { Files } from './files.js'
import { seconds } from './time.js'
import type { Duration } from './time.js'
import type { RequestOptions, Transport } from './transport.js'
import type { WireVolume, WireVolumeSnapshot } from './wire.js'

/** One sandbox; many that read; many that write. */
export type AccessMode = 'RWO' | 'ROX' | 'RWX'

export interface VolumeSettings {
  accessMode?: AccessMode | undefined
  /** Who owns what this API makes. */
  uid?: number | undefined
  gid?: number | undefined
}

export interface VolumeOptions extends VolumeSettings, RequestOptions {
  /** How much it can hold, such as `10Gi`. */
  size?: string | undefined
  /** Begin with the files of this snapshot of a volume. */
  snapshotId?: string | undefined
  /** Keep the files in a bucket. */
  s3?: S3Options | undefined
}

export interface S3Options {
  bucket: string
  accessKey: string
  secretKey: string
  sessionToken?: string | undefined
  prefix?: string | undefined
  region?: string | undefined
  endpointUrl?: string | undefined
}

export interface VolumeInfo {
  readonly id: string
  readonly accessMode: AccessMode
  readonly backend: string
  /** Whose files it began with. */
  readonly sourceId: string | undefined
  readonly sizeBytes: number
  readonly usedBytes: number | undefined
  /** The sandboxes that have it. */
  readonly mountedIn: readonly string[]
  readonly createdAt: Date
}

export interface VolumeSnapshotInfo {
  readonly id: string
  readonly volumeId: string
  readonly name: string
  readonly description: string
  readonly sizeBytes: number
  readonly createdAt: Date
  readonly expiresAt: Date | undefined
}

const PATH = '/api/v1/sandboxvolumes'
const STATE_TIMEOUT_MS = 600_000

/** `files` reads and writes it without any sandbox; paths begin at its own root. */
export class Volume {
  readonly files: Files
  readonly #transport: Transport
  readonly #path: string
  readonly #disposable: boolean

  /** @internal Use `atoll.volumes`. */
  constructor(
    transport: Transport,
    readonly id: string,
    disposable: boolean
  ) {
    this.#transport = transport
    this.#path = `${PATH}/${encodeURIComponent(id)}`
    this.#disposable = disposable
    this.files = new Files(transport, this.#path)
  }

  async info(options: RequestOptions = {}): Promise<VolumeInfo> {
    return volumeInfo(await this.#transport.json<WireVolume>('GET', this.#path, options))
  }

  /** A new volume that begins with the files of this one. */
  async fork(options: VolumeSettings & RequestOptions = {}): Promise<Volume> {
    const { accessMode, uid, gid, ...request } = options
    const json = settingsOf({ accessMode, uid, gid })
    const call = { requestTimeoutMs: STATE_TIMEOUT_MS, ...request, json }
    const { id } = await this.#transport.json<WireVolume>('POST', `${this.#path}/fork`, call)
    return new Volume(this.#transport, id, true)
  }

  /** Keeps the files as they are now. */
  async snapshot(
    name: string,
    options: RequestOptions & { description?: string; expiresIn?: Duration } = {}
  ): Promise<VolumeSnapshotInfo> {
    const { description, expiresIn, ...request } = options
    const json = {
      name,
      ...(description === undefined ? {} : { description }),
      ...(expiresIn === undefined
        ? {}
        : { expires_at: new Date(Date.now() + seconds(expiresIn) * 1000).toISOString() })
    }
    const call = { requestTimeoutMs: STATE_TIMEOUT_MS, ...request, json }
    return snapshotInfo(await this.#transport.json('POST', `${this.#path}/snapshots`, call))
  }

  async snapshots(options: RequestOptions = {}): Promise<VolumeSnapshotInfo[]> {
    const path = `${this.#path}/snapshots`
    return (await this.#transport.json<WireVolumeSnapshot[]>('GET', path, options)).map(
      snapshotInfo
    )
  }

  /** Gives it the files of one of its snapshots; `force` also while it is mounted. */
  async restore(
    snapshotId: string,
    options: RequestOptions & { force?: boolean } = {}
  ): Promise<void> {
    const { force = false, ...request } = options
    await this.#transport.json('POST', `${this.#snapshotPath(snapshotId)}/restore`, {
      requestTimeoutMs: STATE_TIMEOUT_MS,
      ...request,
      json: { force } // not idempotent: once more would take away what was written since
    })
  }

  async deleteSnapshot(snapshotId: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.json('DELETE', this.#snapshotPath(snapshotId), options)
  }

  /**
   * Deletes it with all that is in it; while a sandbox has it mounted only with `force`. One that
   * is gone is no error.
   */
  async delete(options: RequestOptions & { force?: boolean } = {}): Promise<void> {
    const { force, ...request } = options
    await this.#transport.json('DELETE', this.#path, { ...request, query: { force } })
  }

  /** Deletes a volume that was made by `create` or `fork`; leaves one that was there before. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#disposable) {
      await this.delete({ force: true })
    }
  }

  #snapshotPath(id: string): string {
    return `${this.#path}/snapshots/${encodeURIComponent(id)}`
  }
}

export class Volumes {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** A new volume. `await using` deletes it at the end of the block. */
  async create(options: VolumeOptions = {}): Promise<Volume> {
    const { accessMode, uid, gid, size, snapshotId, s3, ...request } = options
    const json = {
      ...settingsOf({ accessMode, uid, gid }),
      ...(size === undefined ? {} : { size }),
      ...(snapshotId === undefined ? {} : { snapshot_id: snapshotId }),
      ...(s3 === undefined ? {} : { backend: 's3', s3: s3Of(s3) })
    }
    const { id } = await this.#transport.json<WireVolume>('POST', PATH, { ...request, json })
    return new Volume(this.#transport, id, true)
  }

  /** A volume that exists. `await using` leaves it alone. */
  async connect(id: string, options: RequestOptions = {}): Promise<Volume> {
    const volume = new Volume(this.#transport, id, false)
    await volume.info(options)
    return volume
  }

  async list(options: RequestOptions = {}): Promise<VolumeInfo[]> {
    return (await this.#transport.json<WireVolume[]>('GET', PATH, options)).map(volumeInfo)
  }

  async delete(id: string, options: RequestOptions & { force?: boolean } = {}): Promise<void> {
    await new Volume(this.#transport, id, false).delete(options)
  }
}

function settingsOf({ accessMode, uid, gid }: VolumeSettings): object {
  return {
    ...(accessMode === undefined ? {} : { access_mode: accessMode }),
    ...(uid === undefined ? {} : { default_posix_uid: uid }),
    ...(gid === undefined ? {} : { default_posix_gid: gid })
  }
}

function s3Of(options: S3Options): object {
  return {
    bucket: options.bucket,
    access_key: options.accessKey,
    secret_key: options.secretKey,
    ...(options.sessionToken === undefined ? {} : { session_token: options.sessionToken }),
    ...(options.prefix === undefined ? {} : { prefix: options.prefix }),
    ...(options.region === undefined ? {} : { region: options.region }),
    ...(options.endpointUrl === undefined ? {} : { endpoint_url: options.endpointUrl })
  }
}

function volumeInfo(volume: WireVolume): VolumeInfo {
  return {
    id: volume.id,
    accessMode: volume.access_mode,
    backend: volume.backend,
    sourceId: volume.source_volume_id ?? undefined,
    sizeBytes: volume.size_bytes,
    usedBytes: volume.metered_storage_bytes ?? undefined,
    mountedIn: volume.mounted_in,
    createdAt: new Date(volume.created_at)
  }
}

function snapshotInfo(snapshot: WireVolumeSnapshot): VolumeSnapshotInfo {
  return {
    id: snapshot.id,
    volumeId: snapshot.volume_id,
    name: snapshot.name,
    description: snapshot.description,
    sizeBytes: snapshot.size_bytes,
    createdAt: new Date(snapshot.created_at),
    expiresAt: snapshot.expires_at === null ? undefined : new Date(snapshot.expires_at)
  }
}
