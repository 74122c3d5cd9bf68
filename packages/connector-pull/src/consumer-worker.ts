/**
 * The consumer's part of the worker half: keeps the leases that it was offered, loads, and gives back.
 * Routes what the scheduler half ordered, and what becomes of connections, to the parts that act. Owned by
 * worker.ts; runs on the engine's thread.
 */
import type {
  AnyConnectorError,
  BlockIds,
  RequestId,
  TransferCompletion,
  WorkerComponents,
} from '@kvferry/connector-api'
import {
  type PeerFacts,
  asConnectorError,
  closed,
  limitExceeded,
  matchingRanks,
  type HostStaging,
  type LoadResults,
} from '@kvferry/connector-api/protocol'
import { limits } from '@kvferry/connector-api'
import { LeaseKeeper } from './lease-keeper.ts'
import type { Offer } from './load-record.ts'
import { LoadTable } from './load-table.ts'
import { OverdueReads } from './overdue-reads.ts'
import type { PullOptions } from './options.ts'
import { PeerConnections } from './peer-connections.ts'
import type { PeerKey } from './peer-listener.ts'
import type { PullCounters } from './pull-counters.ts'
import type { LocalCache } from './read-plan.ts'
import { ReleaseQueue } from './release-queue.ts'

export interface ConsumerOptions {
  readonly components: WorkerComponents
  readonly counters: PullCounters
  readonly options: PullOptions
  readonly facts: PeerFacts
  readonly cache: LocalCache
  readonly staging: HostStaging | null
}

export class ConsumerWorker {
  readonly #components: WorkerComponents
  readonly #peers: PeerConnections
  readonly #leases: LeaseKeeper
  readonly #loads: LoadTable
  readonly #releases: ReleaseQueue
  readonly #overdue: OverdueReads
  readonly #ranksOf: (tpSize: number) => readonly number[]
  /** Ready, or on their way out. */
  readonly #connected = new Set<PeerKey>()

  constructor(init: ConsumerOptions) {
    const { components, counters, options, facts, cache, staging } = init
    const { rank: tpRank, tpSize } = cache
    this.#components = components
    this.#ranksOf = (size) => matchingRanks(tpRank, tpSize, size)
    const ranksOf = this.#ranksOf
    const own = { rank: tpRank, facts }
    this.#peers = new PeerConnections({
      components,
      counters,
      own,
      handshakeTimeoutMs: options.handshakeTimeoutMs,
      listener: {
        onReady: (key, link) => {
          this.#connected.add(key)
          this.#countConnections()
          this.#loads.reads.onReady(key, link)
          this.#leases.onReady(key, link)
          this.#releases.onReady(key, link)
        },
        onFailed: (key, error) => {
          this.#loads.reads.onFailed(key, error)
          this.#leases.onFailed(this.#peers, key)
          this.#releases.onFailed(key)
        },
        onForgotten: (key) => {
          if (this.#connected.delete(key)) this.#countConnections()
          this.#loads.reads.onForgotten(key)
          this.#leases.onForgotten(this.#peers, key)
          this.#releases.onForgotten(this.#peers, key)
        },
        hasOpenReads: (key) => this.#loads.reads.hasOpen(key),
      },
    })
    const { leaseDurationMs } = options
    this.#leases = new LeaseKeeper({ components, counters, ranksOf, leaseDurationMs })
    this.#releases = new ReleaseQueue(components, counters, tpRank)
    this.#overdue = new OverdueReads(components, own)
    this.#loads = new LoadTable({
      ...{ components, counters, options, tpRank, cache, staging, ranksOf },
      ...{ peers: this.#peers, leases: this.#leases },
      ...{ releases: this.#releases, overdue: this.#overdue },
    })
  }

  get results(): LoadResults {
    return this.#loads.results
  }

  get quarantinedBlockCount(): number {
    return this.#loads.quarantinedBlockCount
  }

  /** A request came with a handoff: its lease is kept from the end of this turn on. */
  offer(offer: Offer): void {
    this.#leases.add(offer)
  }

  /** Takes a load of what was offered on. Its READs leave with `flush`, or when their peers are ready. */
  load(requestId: RequestId, localBlockIds: BlockIds, tokenEnd: number): void {
    const offer = this.#leases.offerOf(requestId)
    if (offer !== null) {
      this.#loads.start({ ...offer, localBlockIds, tokenEnd })
      return
    }
    // The offer found no room; or this worker is closing, and keeps none.
    const max = limits.requestCountMax
    const error = this.#loads.stopError ?? limitExceeded('requestCountMax', max + 1, max)
    this.#loads.fail({ requestId, localBlockIds }, error)
  }

  /** Nothing is to be read: the producer may free. */
  release(requestId: RequestId): void {
    const offer = this.#leases.offerOf(requestId)
    this.#leases.end(requestId)
    if (offer === null) return
    for (const rank of this.#ranksOf(offer.handoff.tpSize)) {
      this.#releases.add(this.#peers, offer, rank)
    }
  }

  abort(requestId: RequestId): void {
    this.#loads.abort(requestId)
  }

  /** Ends a turn. Posts every READ that became ready since the last call, in one call to the agent. */
  flush(): void {
    this.#loads.flush()
    this.#leases.connect(this.#peers)
  }

  onCompletions(completions: readonly TransferCompletion[]): void {
    this.#loads.reads.onCompletions(completions)
  }

  onBroken(error: AnyConnectorError): void {
    this.#loads.onBroken(error)
    // Of an agent that is gone nothing ends any more.
    this.#overdue.close()
  }

  /** Waits for open READs up to `deadlineMs`, then lets the peers go whatever is open. */
  async shutdown(deadlineMs: number): Promise<void> {
    this.#leases.close()
    this.#loads.stop(closed('connector'))
    if (this.#loads.reads.openCount > 0) {
      try {
        await this.#components.agent.drain({ deadlineMs })
      } catch (cause) {
        const error = asConnectorError(cause, { operation: 'drain', peer: 'all' })
        this.#components.logger.warn(`READs are open at shutdown: ${error.message}`)
      }
    }
    await this.#loads.settle()
    this.#overdue.close()
    await this.#peers.close()
  }

  #countConnections(): void {
    this.#components.metrics.set('kv_connections_open', this.#connected.size)
  }
}
