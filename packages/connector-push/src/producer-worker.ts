/**
 * The producer's part of the worker half: hands what the forward computes to the agent's thread. Routes to
 * the parts that act. Owned by worker.ts; runs on the engine's
 * thread, and moves no byte itself.
 */
import type {
  ReadyFence,
  RequestId,
  TransferCompletion,
  WorkerComponents,
} from '@kvferry/connector-api'
import { EndWait, closed, type PeerFacts } from '@kvferry/connector-api/protocol'
import {
  ConsumerPeers,
  ProducerAnswers,
  type ConsumerPeer,
  type SourceCache,
  type WriteCounters,
} from '@kvferry/connector-api/remote-writes'
import { pushIdentity } from './identity.ts'
import type { MetadataEntry } from './metadata.ts'
import type { PushOptions } from './options.ts'
import { PreemptionWait } from './preemption-wait.ts'
import { RendezvousTable } from './rendezvous-table.ts'

export interface ProducerOptions {
  readonly components: WorkerComponents
  readonly counters: WriteCounters
  readonly options: PushOptions
  readonly facts: PeerFacts
  readonly cache: SourceCache
}

type Computed = Extract<MetadataEntry, { kind: 'computed' }>

export class ProducerWorker {
  readonly #components: WorkerComponents
  readonly #peers: ConsumerPeers
  readonly #table: RendezvousTable
  readonly #preemption: PreemptionWait
  readonly #answers: ProducerAnswers
  readonly #writesEnd: EndWait
  #computed: Computed[] = []
  #shownLeaseCount = 0

  constructor(init: ProducerOptions) {
    const { components, counters, options, facts, cache } = init
    const { rank } = cache
    this.#components = components
    this.#table = new RendezvousTable({
      ...{ protocol: pushIdentity.name, components, counters, facts, rank, cache },
      leaseDurationMs: options.leaseDurationMs,
      transferDeadlineMs: options.transferDeadlineMs,
      onChange: () => this.#onChange(),
      onWriteEnd: (peer, isDone) => this.#writeEnd(peer, isDone),
    })
    this.#writesEnd = new EndWait(components.clock, () => this.#table.writes.openCount === 0)
    this.#preemption = new PreemptionWait(components, this.#table)
    this.#peers = new ConsumerPeers({
      ...{ protocol: pushIdentity.name, components, rank },
      onGone: (peer) => this.#table.leave(peer),
      hasOpenWrites: (peer) => this.#table.hasOpenWrites(peer),
    })
    this.#answers = new ProducerAnswers({
      ...{ protocol: pushIdentity, components, counters, facts, cache, peers: this.#peers },
      ...{ leaseDurationMs: options.leaseDurationMs, desk: this.#table },
      quarantinedBlockCount: () => this.quarantinedBlockCount,
      isAtWork: () => this.#table.counts.begunCount > 0 || this.#table.writes.openCount > 0,
    })
  }

  /** Requests whose blocks wait for their consumer. */
  get openLeaseCount(): number {
    return this.#table.counts.heldCount
  }

  get quarantinedBlockCount(): number {
    return this.#table.writes.quarantinedBlockCount
  }

  announce({ requestId, transferId, prompt }: Extract<MetadataEntry, { kind: 'announce' }>): void {
    this.#table.announce(requestId, transferId, prompt)
  }

  /** Its first tokens are computed. */
  begin(requestId: RequestId): void {
    this.#table.begin(requestId)
  }

  /** Of the step that is about to run; handed over by `save`. */
  computed(entry: Computed): void {
    this.#computed.push(entry)
  }

  finish(requestId: RequestId): void {
    this.#table.tell(requestId, { kind: 'finish' })
  }

  /** It ended without KV to give. `isKept`: the engine waits for the report. */
  end(requestId: RequestId, isKept: boolean): void {
    const error = closed(`prefill ${requestId}`)
    this.#table.tell(requestId, { kind: isKept ? 'abort' : 'withdraw', error })
  }

  /** Its answer reached nobody. */
  undelivered(requestId: RequestId): void {
    this.#table.tell(requestId, { kind: 'undelivered' })
  }

  /** Resolves when no WRITE reads their blocks any more. */
  preempt(requestIds: readonly RequestId[]): Promise<void> {
    return this.#preemption.of(requestIds)
  }

  /** The step's forward was launched: what it computes leaves as soon as it has ended. */
  save(fence: ReadyFence | null): void {
    const computed = this.#computed
    this.#computed = []
    this.#table.computed(computed, fence)
  }

  takeSent(): RequestId[] {
    return this.#table.takeSent()
  }

  onCompletions(completions: readonly TransferCompletion[]): void {
    this.#table.writes.onCompletions(completions)
  }

  onBroken(): void {
    this.#table.writes.onBroken()
    this.#table.stop()
  }

  /**
   * Gives up what is not on its way, and waits for the rest and for the agent, up to `deadlineMs` each.
   * Leaves no timer.
   */
  async shutdown(deadlineMs: number): Promise<void> {
    this.#answers.stop()
    this.#table.stop()
    await this.#writesEnd.wait(deadlineMs)
    this.#preemption.close()
    await this.#peers.close(deadlineMs)
    this.#table.close()
  }

  #onChange(): void {
    const { heldCount } = this.#table.counts
    // Most changes leave it as it is, and to set a metric costs more than they do.
    if (heldCount !== this.#shownLeaseCount) {
      this.#components.metrics.set('kv_leases_open', heldCount)
    }
    this.#shownLeaseCount = heldCount
    if (this.#table.hasUnreported) this.#components.requestStep()
  }

  #writeEnd(peer: ConsumerPeer, isDone: boolean): void {
    if (isDone) this.#peers.wired(peer)
    this.#peers.checkIdle(peer)
    this.#preemption.check()
    this.#writesEnd.check()
  }
}
