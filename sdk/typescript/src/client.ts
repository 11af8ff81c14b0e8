// One server. `Sandbox.create()` and its siblings make one from the environment.
import { Approvals, Flows } from './audit.js'
import { Credentials } from './credentials.js'
import { Sandboxes } from './sandboxes.js'
import { Snapshots } from './state.js'
import { Templates } from './templates.js'
import { Transport } from './transport.js'
import type { ConnectionOptions } from './transport.js'
import { Volumes } from './volumes.js'

/** For more than one server, or options given once: `new Atoll({ url, apiKey })`. */
export class Atoll {
  readonly sandboxes: Sandboxes
  readonly snapshots: Snapshots
  readonly templates: Templates
  readonly volumes: Volumes
  readonly credentials: Credentials
  readonly flows: Flows
  readonly approvals: Approvals
  readonly url: string

  constructor(options: ConnectionOptions = {}) {
    const transport = new Transport(options)
    this.url = transport.url
    this.sandboxes = new Sandboxes(transport)
    this.snapshots = new Snapshots(transport)
    this.templates = new Templates(transport)
    this.volumes = new Volumes(transport)
    this.credentials = new Credentials(transport)
    this.flows = new Flows(transport, '/api/v1/network')
    this.approvals = new Approvals(transport)
  }
}
