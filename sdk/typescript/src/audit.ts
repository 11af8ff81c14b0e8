// What sandboxes send out, and requests that wait for a person.
import { jsonLines } from './bytes.js'
import type { Query, RequestOptions, Transport } from './transport.js'
import type { WireApproval, WireExplanation, WireFlow, WireFlowList, WireTraffic } from './wire.js'

/** As the contract has them; times are RFC 3339. */
export type Flow = WireFlow
export type Traffic = WireTraffic
export type Explanation = WireExplanation
export type Approval = WireApproval

export interface FlowFilter {
  outcome?: Flow['outcome'] | undefined
  kind?: Flow['kind'] | undefined
  /** A host name, or `*.example.com`. */
  name?: string | undefined
  rule?: string | undefined
  protocol?: string | undefined
  contextId?: string | undefined
  since?: Date | undefined
  until?: Date | undefined
}

export interface FlowListOptions extends FlowFilter, RequestOptions {
  /** Default 100. */
  limit?: number | undefined
}

export interface FlowFollowOptions extends FlowFilter, RequestOptions {
  /** Of the last flow that was seen. */
  cursor?: string | undefined
}

const PAGE = 1000

/** Flows of one sandbox (`sandbox.flows`), or of all (`atoll.flows`). */
export class Flows {
  readonly #transport: Transport
  readonly #path: string

  /** @internal */
  constructor(transport: Transport, path: string) {
    this.#transport = transport
    this.#path = path
  }

  /** Newest first. */
  async list(options: FlowListOptions = {}): Promise<Flow[]> {
    const { limit = 100, signal, requestTimeoutMs, ...filter } = options
    const flows: Flow[] = []
    let cursor: string | undefined
    do {
      const page: WireFlowList = await this.#transport.json('GET', `${this.#path}/flows`, {
        query: { ...queryOf(filter), limit: Math.min(PAGE, limit - flows.length), cursor },
        signal,
        requestTimeoutMs
      })
      flows.push(...page.flows)
      cursor = page.next_cursor
    } while (cursor !== undefined && flows.length < limit)
    return flows
  }

  /** Each flow as it is decided and again as it ends. Leaving the loop ends it. */
  async *follow(options: FlowFollowOptions = {}): AsyncGenerator<Flow> {
    const { cursor, signal, requestTimeoutMs, ...filter } = options
    const query = { ...queryOf(filter), follow: true, cursor }
    const call = { query, signal, requestTimeoutMs }
    yield* jsonLines<Flow>(await this.#transport.stream('GET', `${this.#path}/flows`, call))
  }

  /** Bytes that moved, over restarts. */
  usage(options: RequestOptions = {}): Promise<Traffic> {
    return this.#transport.json('GET', `${this.#path}/usage`, options)
  }
}

export interface WhyOptions extends RequestOptions {
  protocol?: string | undefined
  transport?: 'tcp' | 'udp' | undefined
}

export class SandboxFlows extends Flows {
  readonly #transport: Transport
  readonly #path: string

  /** @internal Use `sandbox.flows`. */
  constructor(transport: Transport, path: string) {
    super(transport, path)
    this.#transport = transport
    this.#path = path
  }

  /** What the policies of the sandbox say about a connection that nobody makes. */
  why(host: string, port = 443, options: WhyOptions = {}): Promise<Explanation> {
    const { protocol, transport, ...request } = options
    const call = { ...request, query: { host, port, protocol, transport } }
    return this.#transport.json('GET', `${this.#path}/why`, call)
  }
}

export interface ApprovalOptions extends RequestOptions {
  /** The same question is answered likewise from now on. */
  session?: boolean | undefined
}

const PATH = '/api/v1/approvals'

/** Requests that a rule with `action: ask` has parked. */
export class Approvals {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Those that wait; `state` says which others. */
  async list(
    options: {
      sandboxId?: string | undefined
      state?: Approval['state'] | 'all' | undefined
    } & RequestOptions = {}
  ): Promise<Approval[]> {
    const { sandboxId, state, ...request } = options
    const call = { ...request, query: { sandbox_id: sandboxId, state } }
    const { approvals } = await this.#transport.json<{ approvals: Approval[] }>('GET', PATH, call)
    return approvals
  }

  /** What waits now, then each as it is asked and as it ends. */
  async *follow(
    options: { sandboxId?: string | undefined } & RequestOptions = {}
  ): AsyncGenerator<Approval> {
    const { sandboxId, ...request } = options
    const call = { ...request, query: { sandbox_id: sandboxId, follow: true } }
    yield* jsonLines<Approval>(await this.#transport.stream('GET', PATH, call))
  }

  allow(id: string, options: ApprovalOptions = {}): Promise<Approval> {
    return this.#answer(id, 'allow', options)
  }

  deny(id: string, options: ApprovalOptions = {}): Promise<Approval> {
    return this.#answer(id, 'deny', options)
  }

  #answer(id: string, decision: string, options: ApprovalOptions): Promise<Approval> {
    const { session = false, ...request } = options
    const json = { decision, remember: session ? 'session' : 'once' }
    return this.#transport.json('POST', `${PATH}/${encodeURIComponent(id)}`, { ...request, json })
  }
}

function queryOf(filter: FlowFilter): Query {
  return {
    outcome: filter.outcome,
    kind: filter.kind,
    name: filter.name,
    rule: filter.rule,
    protocol: filter.protocol,
    context_id: filter.contextId,
    start_time: filter.since?.toISOString(),
    end_time: filter.until?.toISOString()
  }
}
