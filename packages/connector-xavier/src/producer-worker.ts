/**
 * The producer's part of the worker half: its tickets, and the consumers that may have them. Routes what the
 * scheduler half ordered, and what the agent says, to the parts that act. Owned by worker.ts; runs on the
 * engine's thread, and moves no byte itself.
 */
import { limits, type TransferCompletion, type WorkerComponents } from '@kvferry/connector-api'
import { EndWait, type PeerFacts } from '@kvferry/connector-api/protocol'
import {
  ConsumerPeers,
  ProducerAnswers,
  type ConsumerPeer,
  type SourceCache,
} from '@kvferry/connector-api/remote-writes'
import { xavierIdentity } from './identity.ts'
import type { XavierOptions } from './options.ts'
import { TicketTable } from './ticket-table.ts'
import type { XavierCounters } from './xavier-counters.ts'

export interface ProducerOptions {
  readonly components: WorkerComponents
  readonly counters: XavierCounters
  readonly options: XavierOptions
  readonly facts: PeerFacts
  readonly cache: SourceCache
}

export class ProducerWorker {
  readonly tickets: TicketTable
  readonly #components: WorkerComponents
  readonly #peers: ConsumerPeers
  readonly #answers: ProducerAnswers
  readonly #ticketsEnd: EndWait

  constructor({ components, counters, options, facts, cache }: ProducerOptions) {
    const protocol = xavierIdentity
    this.#components = components
    this.tickets = new TicketTable({
      ...{ protocol: protocol.name, components, counters, options, cache, retain: null },
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
    return this.tickets.writes.quarantinedBlockCount
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
    await this.#ticketsEnd.wait(deadlineMs)
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
