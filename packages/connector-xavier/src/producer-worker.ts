/**
 * The producer's part of the worker half: its tickets, and the consumers that may have them. Routes what the
 * scheduler half ordered, and what the agent says, to the parts that act. Owned by worker.ts; runs on the
 * engine's thread, and moves no byte itself.
 */
import { limits, type TransferCompletion, type WorkerComponents } from '@kvferry/connector-api'
import type { PeerFacts } from '@kvferry/connector-api/protocol'
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
  #wakeShutdown: (() => void) | null = null

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
    })
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
    if (this.tickets.heldCount > 0) await this.#ticketsEnd(deadlineMs)
    await this.#peers.close()
    this.tickets.close()
  }

  #ticketsEnd(deadlineMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#components.clock.after(deadlineMs, resolve)
      this.#wakeShutdown = () => {
        if (this.tickets.heldCount > 0) return
        timer.stop()
        resolve()
      }
    })
  }

  #onChange(): void {
    this.#components.metrics.set('kv_leases_open', this.tickets.heldCount)
    if (this.tickets.hasUnreported) this.#components.requestStep()
    this.#wakeShutdown?.()
  }

  #writeEnd(peer: ConsumerPeer, isDone: boolean): void {
    if (isDone) this.#peers.wired(peer)
    this.#peers.checkIdle(peer)
  }
}
