/**
 * The producer's part of the worker half: answers consumers on the side channel, and hands what the forward
 * computes to the agent's thread. Routes to the parts that act. Owned by worker.ts; runs on the engine's
 * thread, and moves no byte itself.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type Association,
  type ReadyFence,
  type RequestId,
  type TransferCompletion,
  type WorkerComponents,
} from '@kvferry/connector-api'
import {
  closed,
  compareFacts,
  matchingRanks,
  peerUnavailable,
  quarantineError,
  type PeerFacts,
} from '@kvferry/connector-api/protocol'
import {
  ConsumerPeers,
  decodeHandshakeRequest,
  decodeHeartbeat,
  decodeRegistration,
  decodeRelease,
  decodeWithdraw,
  encodeEmpty,
  encodeHandshakeReply,
  encodeHeartbeatReply,
  encodeRegisterReply,
  encodeWithdrawReply,
  kindOf,
  messageKinds,
  type ConsumerPeer,
  type MessageKind,
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

type Answer = (body: Uint8Array, from: Association) => Uint8Array | Promise<Uint8Array>
type Computed = Extract<MetadataEntry, { kind: 'computed' }>

export class ProducerWorker {
  readonly #init: ProducerOptions
  readonly #components: WorkerComponents
  readonly #peers: ConsumerPeers
  readonly #table: RendezvousTable
  readonly #preemption: PreemptionWait
  #computed: Computed[] = []
  #isClosed = false
  #wakeShutdown: (() => void) | null = null

  constructor(init: ProducerOptions) {
    const { components, counters, options, facts, cache } = init
    const { rank } = cache
    this.#init = init
    this.#components = components
    this.#table = new RendezvousTable({
      ...{ protocol: pushIdentity.name, components, counters, facts, rank, cache },
      leaseDurationMs: options.leaseDurationMs,
      transferDeadlineMs: options.transferDeadlineMs,
      onChange: () => this.#onChange(),
      onWriteEnd: (peer, isDone) => this.#writeEnd(peer, isDone),
    })
    this.#preemption = new PreemptionWait(components, this.#table)
    this.#peers = new ConsumerPeers({
      ...{ protocol: pushIdentity.name, components, rank },
      onGone: (peer) => this.#table.leave(peer),
      hasOpenWrites: (peer) => this.#table.hasOpenWrites(peer),
    })
    this.#listen()
  }

  /** Requests whose blocks wait for their consumer. */
  get openLeaseCount(): number {
    return this.#table.heldCount
  }

  get quarantinedBlockCount(): number {
    return this.#table.writes.quarantinedBlockCount
  }

  announce({ requestId, transferId, prompt }: Extract<MetadataEntry, { kind: 'announce' }>): void {
    this.#table.announce(requestId, transferId, prompt)
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

  /** Gives up what is not on its way, and waits for the rest up to `deadlineMs`. Leaves no timer. */
  async shutdown(deadlineMs: number): Promise<void> {
    this.#isClosed = true
    this.#table.stop()
    if (this.#table.writes.openCount > 0) await this.#writesEnd(deadlineMs)
    await this.#peers.close()
    this.#table.close()
  }

  #writesEnd(deadlineMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#components.clock.after(deadlineMs, resolve)
      this.#wakeShutdown = () => {
        if (this.#table.writes.openCount > 0) return
        timer.stop()
        resolve()
      }
    })
  }

  #onChange(): void {
    this.#components.metrics.set('kv_leases_open', this.#table.heldCount)
    if (this.#table.hasUnreported) this.#components.requestStep()
  }

  #writeEnd(peer: ConsumerPeer, isDone: boolean): void {
    if (isDone) this.#peers.wired(peer)
    this.#peers.checkIdle(peer)
    this.#preemption.check()
    this.#wakeShutdown?.()
  }

  #listen(): void {
    const { sideChannel } = this.#components
    const answers: Partial<Record<MessageKind, Answer>> = {
      handshake: this.#handshake,
      heartbeat: this.#heartbeat,
      register: this.#register,
      withdraw: this.#withdraw,
      release: this.#release,
    }
    const { rank } = this.#init.cache
    for (const [name, answer] of Object.entries(answers)) {
      sideChannel.handle(kindOf(pushIdentity.name, name as MessageKind, rank), (body, from) => {
        try {
          return answer(body, from)
        } catch (error) {
          if (ConnectorError.isInstance(error)) this.#refused(name, error.message)
          throw error
        }
      })
    }
  }

  readonly #handshake: Answer = (body, from) => {
    if (this.#isClosed) throw closed('connector')
    const { engineId } = from.peer
    const { facts, options } = this.#init
    const request = decodeHandshakeRequest(body, engineId)
    const mismatch = compareFacts(facts, request.facts, pushIdentity.capabilities.tensorParallel)
    if (mismatch !== null) {
      // The consumer finds and names the same difference, with the values the right way round.
      this.#refused(messageKinds.handshake, `${mismatch.field} differs from ${engineId}`)
      return encodeHandshakeReply({ facts, grant: null })
    }
    const ranks = matchingRanks(this.#init.cache.rank, facts.tpSize, request.facts.tpSize)
    // Another one has none of this rank's heads: a WRITE for it would read other blocks.
    if (!ranks.includes(request.rank)) throw wrongRank(engineId, request.rank, ranks)
    const process = this.#components.processes?.self ?? null
    const grant = { leaseDurationMs: options.leaseDurationMs, process }
    return this.#peers.introduce(request, from).then(() => encodeHandshakeReply({ facts, grant }))
  }

  readonly #heartbeat: Answer = (body, from) => {
    const { rank, transferIds } = decodeHeartbeat(body)
    const peer = this.#peers.of(from.peer, rank)
    return encodeHeartbeatReply(
      transferIds.map((id) => (peer === null ? 'unknown' : this.#table.renew(id, peer))),
    )
  }

  readonly #register: Answer = (body, from) => {
    const { engineId } = from.peer
    const registration = decodeRegistration(body, engineId)
    const peer = this.#peers.of(from.peer, registration.rank)
    const { blockCount } = this.#init.cache.caches.regions[0]!
    const refusal =
      peer === null
        ? peerUnavailable(engineId)
        : (quarantineError(this.quarantinedBlockCount, blockCount) ??
          this.#table.register(registration, peer))
    const { counters } = this.#init
    counters.add(refusal === null ? 'registrationsAccepted' : 'registrationsRefused')
    return encodeRegisterReply(refusal)
  }

  /** Answered also when closed: nothing else ends the consumer's doubt. */
  readonly #withdraw: Answer = async (body, from) => {
    const question = decodeWithdraw(body, from.peer.engineId)
    const reply = await this.#table.withdraw(question, { identity: from.peer })
    this.#init.counters.add('withdrawalsAnswered')
    return encodeWithdrawReply(reply)
  }

  readonly #release: Answer = (body, from) => {
    const release = decodeRelease(body, from.peer.engineId)
    const peer = this.#peers.of(from.peer, release.rank)
    if (peer !== null) this.#table.release(release, peer)
    return encodeEmpty()
  }

  #refused(where: string, reason: string): void {
    this.#init.counters.add('messagesRefused')
    this.#components.metrics.add('kv_messages_refused_total', 1, { where })
    this.#components.logger.warn(`message refused: ${reason}`, { where })
  }
}

function wrongRank(peer: string, rank: number, ranks: readonly number[]): AnyConnectorError {
  const [local, remote] = [`one of ${ranks.join(', ')}`, String(rank)]
  const message = `${peer}: rank ${remote} shares no heads with this rank, only ${local}`
  return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, {
    ...{ peer, field: 'rank', local, remote },
  })
}
