// One server. `Sandbox.create()` and its siblings make one from the environment.
import { Sandboxes } from './sandboxes.js'
import { Templates } from './templates.js'
import { Transport } from './transport.js'
import type { ConnectionOptions } from './transport.js'

/** For more than one server, or options given once: `new Atoll({ url, apiKey })`. */
export class Atoll {
  readonly sandboxes: Sandboxes
  readonly templates: Templates
  readonly url: string

  constructor(options: ConnectionOptions = {}) {
    const transport = new Transport(options)
    this.url = transport.url
    this.sandboxes = new Sandboxes(transport)
    this.templates = new Templates(transport)
  }
}
