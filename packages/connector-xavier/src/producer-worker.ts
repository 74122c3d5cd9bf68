/**
 * The producer's part of the worker half: its tickets, the consumers that may have them, and the history. Routes what the
 * scheduler half ordered, and what the agent says, to the parts that act. Owned by worker.ts; runs on the
 * engine's thread, and moves no byte itself.
 */
import {
  limits,
  type KvHistory,
  type TransferCompletion,
  type TransferDirections,
  type WorkerComponents,
} from '@kvferry/connector-api'
import { EndWait, type PeerFacts } from '@kvferry/connector-api/protocol'
import {
  ConsumerPeers,
  ProducerAnswers,
  type ConsumerPeer,
  type SourceCache,
} from '@kvferry/connector-api/remote-writes'
import { busyDirections } from './history/busy-directions.ts'
import { HistoryDesk } from './history/history-desk.ts'
import { xavierIdentity } from './identity.ts'
import type { XavierOptions } from './options.ts'
import type { SnapshotStore } from './snapshot-store.ts'
import { TicketTable } from './ticket-table.ts'
import type { XavierCounters } from './xavier-counters.ts'

export interface ProducerOptions {
  readonly components: WorkerComponents
  readonly counters: XavierCounters
  readonly options: XavierOptions
  readonly facts: PeerFacts
  /** What WRITEs leave from. */
  readonly cache: SourceCache
  /** Null: released blocks are not kept. */
  readonly openHistory: (directions: TransferDirections) => KvHistory | null
  /** Null: the engine's own blocks. */
  readonly snapshots: SnapshotStore | null
}

export class ProducerWorker {
  readonly tickets: TicketTable
  readonly history: HistoryDesk | null
  readonly #components: WorkerComponents
  readonly #peers: ConsumerPeers
  readonly #answers: ProducerAnswers
  readonly #ticketsEnd: EndWait

  /** @throws ConnectorError ERR_KV_CONFIG for a history of impossible size. */
  constructor({ components, counters, options, facts, cache, ...init }: ProducerOptions) {
    const { openHistory, snapshots } = init
    const protocol = xavierIdentity
    this.#components = components
    const history = openHistory(busyDirections(() => this.tickets.writes.openCount > 0))
    this.history =
      history === null ? null : new HistoryDesk(history, components, options.transferDeadlineMs)
    this.tickets = new TicketTable({
      ...{ protocol: protocol.name, components, counters, options, cache },
      retain: this.history?.retain ?? null,
      publish: snapshots && ((blockIds) => snapshots.publish(blockIds)),
      transferDeadlineMs: options.transferDeadlineMs,
      onChange: () => this.#onChange(),
      onWriteEnd: (peer, isDone) => this.#writeEnd(peer, isDone),
    })
    this.#peers = new ConsumerPeers({
      ...{ protocol: protocol.name, components, rank: cache.rank },
      onGone: (peer) => this.tickets.leave(peer),
      hasOpenWrites: (peer) => this.tickets.hasOpenWrites(peer),
    })
    this.#answers = new ProducerAnswers({
      ...{ protocol, components, counters, facts, cache, peers: this.#peers, desk: this.tickets },
      // How often claims are renewed: a silent producer is noticed long before a claim ends.
      leaseDurationMs: Math.min(limits.leaseDurationMs, options.unclaimedTicketMs),
      quarantinedBlockCount: () => this.quarantinedBlockCount,
      isAtWork: () => this.tickets.writes.openCount > 0,
    })
    this.#ticketsEnd = new EndWait(components.clock, () => this.tickets.heldCount === 0)
  }

  get quarantinedBlockCount(): number {
    const restoring = this.history?.quarantinedBlockCount ?? 0
    return this.tickets.writes.quarantinedBlockCount + restoring
  }

  onCompletions(completions: readonly TransferCompletion[]): void {
    this.tickets.writes.onCompletions(completions)
  }

  onBroken(): void {
    this.tickets.writes.onBroken()
    this.tickets.stop()
  }

  /** Gives up what is not on its way, and waits for the rest up to `deadlineMs`. Leaves no timer. */
  async shutdown(deadlineMs: number): Promise<void> {
    this.#answers.stop()
    this.tickets.stop()
    const historyEnd = this.history?.close(deadlineMs)
    await this.#ticketsEnd.wait(deadlineMs)
    await historyEnd
    await this.#peers.close(deadlineMs)
    this.tickets.close()
  }

  #onChange(): void {
    this.#components.metrics.set('kv_leases_open', this.tickets.heldCount)
    if (this.tickets.hasUnreported) this.#components.requestStep()
    this.#ticketsEnd.check()
  }

  #writeEnd(peer: ConsumerPeer, isDone: boolean): void {
    if (isDone) this.#peers.wired(peer)
    this.#peers.checkIdle(peer)
  }
}
