/**
 * The producer's part of the worker half: answers consumers on the side channel, hears their read-done
 * notifications, keeps leases and reports their ends, and has the agent poll exactly while a consumer may
 * need it. Owned by worker.ts. It moves no byte itself.
 */
import {
  ConnectorError,
  type AgentNotification,
  type Association,
  type PeerIdentity,
  type RequestId,
  type WorkerComponents,
} from '@kvferry/connector-api'
import {
  compareFacts,
  type PeerFacts,
  closed,
  lifeKey,
  type HostStaging,
  EndWait,
  PollHolds,
  protocolLimits,
} from '@kvferry/connector-api/protocol'
import { ConsumerRanks, readerOf, type ConsumerRank } from './consumer-ranks.ts'
import { pullIdentity } from './identity.ts'
import type { Straggler } from './lease-state.ts'
import { LeaseTable } from './lease-table.ts'
import { pullLimits } from './limits.ts'
import {
  decodeHandshakeRequest,
  decodeHeartbeat,
  decodeLeaseQuestion,
  decodeSpeaker,
  encodeEmpty,
  encodeHandshakeReply,
  encodeHeartbeatAnswer,
  encodeLeaseAnswer,
  messageKinds,
  type HandshakeGrant,
} from './messages.ts'
import { decodeReadDone } from './notification.ts'
import type { PullCounters } from './pull-counters.ts'
import { StagedLeases } from './staged-leases.ts'

export interface ProducerOptions {
  readonly components: WorkerComponents
  readonly counters: PullCounters
  readonly leaseDurationMs: number
  readonly facts: PeerFacts
  readonly tpRank: number
  readonly agentMetadata: Uint8Array
  /** As `TransferAgent.exportBlockTable` made it. */
  readonly blockTable: Uint8Array
  readonly handoffKey: Uint8Array
  readonly staging: HostStaging | null
}

export class ProducerWorker {
  readonly #options: ProducerOptions
  readonly #components: WorkerComponents
  readonly #leases: LeaseTable
  readonly #consumers: ConsumerRanks
  readonly #holds: PollHolds
  readonly #staged: StagedLeases | null
  readonly #claimsEnd: EndWait
  #isExpecting = false
  #isClosed = false

  constructor(options: ProducerOptions) {
    const { components, counters, leaseDurationMs, facts, tpRank } = options
    const { clock, metrics, random, sideChannel } = components
    const onChange = (): void => this.#onChange()
    this.#options = options
    this.#staged = options.staging === null ? null : new StagedLeases(options.staging, clock)
    this.#components = components
    this.#consumers = new ConsumerRanks(random, { rank: tpRank, tpSize: facts.tpSize }, (peer) =>
      this.#leases.hasReader(peer),
    )
    this.#holds = new PollHolds(clock, onChange)
    this.#claimsEnd = new EndWait(clock, () => this.#leases.claimedCount === 0)
    this.#leases = new LeaseTable({
      clock,
      metrics,
      counters,
      context: {
        leaseDurationMs,
        completedReadRetentionMs: pullLimits.completedReadRetentionMs,
      },
      onChange,
      onStraggler: (requestId, of) => this.#expectStraggler(requestId, of),
    })
    const answers = {
      [messageKinds.handshake]: this.#handshake,
      [messageKinds.heartbeat]: this.#heartbeat,
      [messageKinds.renew]: this.#renew,
      [messageKinds.release]: this.#release,
      [messageKinds.wired]: this.#wired,
    }
    for (const [kind, answer] of Object.entries(answers)) {
      sideChannel.handle(kind, (body, from) => this.#answer(kind, () => answer(body, from)))
    }
  }

  announce(requestId: RequestId): void {
    this.#leases.announce(requestId)
  }

  /** Only when staging; the lease begins with the next entry. */
  stage(requestId: RequestId, blockIds: Uint32Array): void {
    this.#staged?.save(requestId, blockIds)
  }

  startLease(requestId: RequestId, remainingMs: number): void {
    this.#leases.start(requestId, remainingMs)
  }

  withdraw(requestId: RequestId): void {
    this.#leases.withdraw(requestId)
    this.#staged?.end(requestId)
  }

  undelivered(requestId: RequestId): void {
    this.#leases.undelivered(requestId)
  }

  get openLeaseCount(): number {
    return this.#leases.openCount
  }

  takeSent(): RequestId[] {
    if (!this.#leases.hasUnreported) return []
    const sent = this.#leases.takeSent()
    for (const requestId of sent) this.#staged?.end(requestId)
    return sent
  }

  onNotifications(notifications: readonly AgentNotification[]): void {
    for (const { message } of notifications) this.#onNotification(message)
  }

  /**
   * Leases that a consumer has claimed may be under its READ now: they get up to `deadlineMs` to end.
   * After it nothing is answered, and no timer is left.
   */
  async shutdown(deadlineMs: number): Promise<void> {
    await this.#claimsEnd.wait(deadlineMs)
    this.#isClosed = true
    this.#holds.clear()
    this.#leases.close()
    this.#staged?.close()
  }

  #onChange(): void {
    const isExpected = this.#holds.isHeld || this.#leases.openCount > 0
    if (isExpected !== this.#isExpecting) {
      this.#isExpecting = isExpected
      this.#components.agent.expectNotifications(isExpected)
    }
    this.#components.metrics.set('kv_leases_open', this.#leases.openCount)
    if (this.#leases.hasUnreported) this.#components.requestStep()
    this.#claimsEnd.check()
  }

  /** Counts what is refused; a ConnectorError goes back to the consumer with its code. */
  #answer(
    kind: string,
    answer: () => Uint8Array | Promise<Uint8Array>,
  ): Uint8Array | Promise<Uint8Array> {
    if (this.#isClosed) throw closed('connector')
    try {
      return answer()
    } catch (error) {
      if (ConnectorError.isInstance(error)) this.#refused(kind, error.message)
      throw error
    }
  }

  readonly #handshake = (body: Uint8Array, { peer }: Association): Uint8Array => {
    const { facts } = this.#options
    const { rank, facts: remote } = decodeHandshakeRequest(body, peer.engineId)
    const mismatch = compareFacts(facts, remote, pullIdentity.capabilities)
    if (mismatch !== null) {
      // The consumer finds and names the same difference, with the values the right way round.
      this.#refused(messageKinds.handshake, `${mismatch.field} differs from ${peer.engineId}`)
      return encodeHandshakeReply({ facts, grant: null })
    }
    const token = this.#consumers.admit(peer, { rank, tpSize: remote.tpSize })
    this.#holds.start(wireUpOf(peer, rank), protocolLimits.wireUpTimeoutMs)
    return encodeHandshakeReply({ facts, grant: this.#grant(token) })
  }

  readonly #heartbeat = (body: Uint8Array, { peer }: Association): Uint8Array => {
    const ids = decodeHeartbeat(body, peer.engineId)
    const isHeld = ids.map((requestId) => this.#leases.heartbeat(requestId, peer))
    const { leaseDurationMs: durationMs } = this.#options
    return encodeHeartbeatAnswer({ clockMs: this.#components.clock.now(), durationMs, isHeld })
  }

  readonly #renew = (body: Uint8Array, { peer }: Association): Uint8Array | Promise<Uint8Array> => {
    const { requestId, loadId, rank } = decodeLeaseQuestion(body, messageKinds.renew, peer.engineId)
    const from = this.#consumers.of(peer, rank)
    if (this.#staged === null || !this.#leases.isOpen(requestId))
      return this.#grantLease(requestId, from, loadId)
    // What is not in the copy yet can't be read: the answer waits for it.
    return this.#staged.isReadable(requestId).then((isReadable) => {
      if (isReadable) return this.#grantLease(requestId, from, loadId)
      return encodeLeaseAnswer({ kind: 'unknown' })
    })
  }

  #grantLease(requestId: RequestId, from: ConsumerRank, loadId: number): Uint8Array {
    const reader = readerOf(from, loadId)
    const answer = this.#leases.renew(requestId, reader, from.share)
    // Who asks has posted a READ already: refused or not, it must be able to end.
    if (answer.kind === 'unknown' || answer.kind === 'claimed') {
      this.#holdForRead({ reader, rank: from.share.rank })
    }
    return encodeLeaseAnswer(answer)
  }

  readonly #release = (body: Uint8Array, { peer }: Association): Uint8Array => {
    const { requestId, loadId, rank } = decodeLeaseQuestion(
      body,
      messageKinds.release,
      peer.engineId,
    )
    this.#finish(requestId, 'release', this.#consumers.of(peer, rank), loadId)
    return encodeEmpty()
  }

  readonly #wired = (body: Uint8Array, { peer }: Association): Uint8Array => {
    this.#holds.end(wireUpOf(peer, decodeSpeaker(body, messageKinds.wired, peer.engineId)))
    return encodeEmpty()
  }

  #expectStraggler(requestId: RequestId, of: Straggler | null): void {
    if (of !== null) this.#holdForRead(of)
    else this.#holds.start(unclaimedOf(requestId), pullLimits.stragglerTimeoutMs)
  }

  #holdForRead(of: Straggler): void {
    this.#holds.start(readOf(of), pullLimits.stragglerTimeoutMs)
  }

  #finish(
    requestId: RequestId,
    kind: 'read-done' | 'release',
    from: ConsumerRank,
    loadId: number,
  ): void {
    const reader = readerOf(from, loadId)
    const { share } = from
    this.#leases.finish(requestId, kind, reader, share)
    this.#holds.end(readOf({ reader, rank: share.rank }))
    // Another rank's READ may still need it.
    if (share.count === 1) this.#holds.end(unclaimedOf(requestId))
  }

  #grant(token: Uint8Array): HandshakeGrant {
    const { agentMetadata, blockTable, handoffKey, leaseDurationMs } = this.#options
    const { agent, clock } = this.#components
    return {
      ...{ agentName: agent.name, agentMetadata, blockTable, token, handoffKey },
      ...{ leaseDurationMs, clockMs: clock.now(), isStaged: this.#staged !== null },
    }
  }

  #onNotification(message: Uint8Array): void {
    try {
      const { token, requestId, loadId } = decodeReadDone(message)
      const peer = this.#consumers.identify(token)
      if (peer === null) this.#refused('notification', 'unknown token')
      else this.#finish(requestId, 'read-done', peer, loadId)
    } catch (error) {
      // Anybody on the network can send one: malformed ones are counted, never thrown.
      if (!ConnectorError.isInstance(error)) throw error
      this.#refused('notification', error.message)
    }
  }

  #refused(where: string, reason: string): void {
    this.#options.counters.add('messagesRefused')
    this.#components.metrics.add('kv_messages_refused_total', 1, { where })
    const message = `message refused: ${reason}`
    // Anybody can send notifications: they must not fill the log.
    if (where === 'notification') this.#components.logger.debug(message, { where })
    else this.#components.logger.warn(message, { where })
  }
}

const wireUpOf = ({ engineId }: PeerIdentity, rank: number): string =>
  JSON.stringify(['wire-up', engineId, rank])

const unclaimedOf = (requestId: RequestId): string => JSON.stringify(['unclaimed', requestId])

const readOf = ({ reader, rank }: Straggler): string => lifeKey(reader, 'read', reader.loadId, rank)
