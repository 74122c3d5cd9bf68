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
  PeerTokens,
  PollHolds,
  protocolLimits,
} from '@kvferry/connector-api/protocol'
import { pullIdentity } from './identity.ts'
import type { Reader } from './lease-state.ts'
import { LeaseTable } from './lease-table.ts'
import { pullLimits } from './limits.ts'
import {
  decodeEmpty,
  decodeHandshakeRequest,
  decodeHeartbeat,
  decodeLeaseQuestion,
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
  readonly #tokens: PeerTokens
  readonly #holds: PollHolds
  readonly #staged: StagedLeases | null
  readonly #claimsEnd: EndWait
  #isExpecting = false
  #isClosed = false

  constructor(options: ProducerOptions) {
    const { components, counters, leaseDurationMs } = options
    const { clock, metrics, random, sideChannel } = components
    const onChange = (): void => this.#onChange()
    this.#options = options
    this.#staged = options.staging === null ? null : new StagedLeases(options.staging, clock)
    this.#components = components
    this.#tokens = new PeerTokens(random, (peer) => this.#leases.hasReader(peer))
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
      onStraggler: (requestId, reader) => this.#expectStraggler(requestId, reader),
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

  get openLeaseCount(): number {
    return this.#leases.openCount
  }

  takeSent(): RequestId[] {
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
    const remote = decodeHandshakeRequest(body, peer.engineId)
    const mismatch = compareFacts(facts, remote, pullIdentity.capabilities.tensorParallel)
    if (mismatch !== null) {
      // The consumer finds and names the same difference, with the values the right way round.
      this.#refused(messageKinds.handshake, `${mismatch.field} differs from ${peer.engineId}`)
      return encodeHandshakeReply({ facts, grant: null })
    }
    const grant = this.#grant(peer)
    this.#holds.start(wireUpOf(peer), protocolLimits.wireUpTimeoutMs)
    return encodeHandshakeReply({ facts, grant })
  }

  readonly #heartbeat = (body: Uint8Array, { peer }: Association): Uint8Array => {
    const ids = decodeHeartbeat(body, peer.engineId)
    const isHeld = ids.map((requestId) => this.#leases.heartbeat(requestId, peer))
    const { leaseDurationMs: durationMs } = this.#options
    return encodeHeartbeatAnswer({ clockMs: this.#components.clock.now(), durationMs, isHeld })
  }

  readonly #renew = (body: Uint8Array, { peer }: Association): Uint8Array | Promise<Uint8Array> => {
    const question = decodeLeaseQuestion(body, messageKinds.renew, peer.engineId)
    const { requestId, loadId } = question
    const reader = readerOf(peer, loadId)
    if (this.#staged === null || !this.#leases.isOpen(requestId))
      return this.#grantLease(requestId, reader)
    // What is not in the copy yet can't be read: the answer waits for it.
    return this.#staged.isReadable(requestId).then((isReadable) => {
      if (isReadable) return this.#grantLease(requestId, reader)
      return encodeLeaseAnswer({ kind: 'unknown' })
    })
  }

  #grantLease(requestId: RequestId, reader: Reader): Uint8Array {
    const answer = this.#leases.renew(requestId, reader)
    // Who asks has posted a READ already: refused or not, it must be able to end.
    if (answer.kind === 'unknown' || answer.kind === 'claimed') this.#holdForRead(reader)
    return encodeLeaseAnswer(answer)
  }

  readonly #release = (body: Uint8Array, { peer }: Association): Uint8Array => {
    const question = decodeLeaseQuestion(body, messageKinds.release, peer.engineId)
    const { requestId, loadId } = question
    this.#finish(requestId, 'release', readerOf(peer, loadId))
    return encodeEmpty()
  }

  readonly #wired = (body: Uint8Array, { peer }: Association): Uint8Array => {
    decodeEmpty(body, messageKinds.wired, peer.engineId)
    this.#holds.end(wireUpOf(peer))
    return encodeEmpty()
  }

  #expectStraggler(requestId: RequestId, reader: Reader | null): void {
    if (reader !== null) this.#holdForRead(reader)
    else this.#holds.start(unclaimedOf(requestId), pullLimits.stragglerTimeoutMs)
  }

  #holdForRead(reader: Reader): void {
    this.#holds.start(readOf(reader), pullLimits.stragglerTimeoutMs)
  }

  #finish(requestId: RequestId, kind: 'read-done' | 'release', reader: Reader): void {
    this.#leases.finish(requestId, kind, reader)
    this.#holds.end(readOf(reader))
    this.#holds.end(unclaimedOf(requestId))
  }

  #grant(peer: PeerIdentity): HandshakeGrant {
    const { agentMetadata, blockTable, handoffKey, leaseDurationMs } = this.#options
    const { agent, clock } = this.#components
    return {
      agentName: agent.name,
      agentMetadata,
      blockTable,
      token: this.#tokens.issue(peer),
      handoffKey,
      leaseDurationMs,
      clockMs: clock.now(),
      isStaged: this.#staged !== null,
    }
  }

  #onNotification(message: Uint8Array): void {
    try {
      const { token, requestId, loadId } = decodeReadDone(message)
      const peer = this.#tokens.identify(token)
      if (peer === null) this.#refused('notification', 'unknown token')
      else this.#finish(requestId, 'read-done', readerOf(peer, loadId))
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

const readerOf = ({ engineId, incarnation }: PeerIdentity, loadId: number): Reader => ({
  engineId,
  incarnation,
  loadId,
})

const wireUpOf = ({ engineId }: PeerIdentity): string => JSON.stringify(['wire-up', engineId])

const unclaimedOf = (requestId: RequestId): string => JSON.stringify(['unclaimed', requestId])

const readOf = (reader: Reader): string => lifeKey(reader, 'read', reader.loadId)
