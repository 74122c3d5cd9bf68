/**
 * The consumer's connections, one per rank of a life of a producer: performs what connection-state.ts decides.
 * Handshakes of different peers run in parallel; loads of one peer share one. Owned by
 * consumer-worker.ts, which learns of readiness and failure through `PeerListener`.
 */
import {
  limits,
  type AnyConnectorError,
  type Association,
  type Incarnation,
  type PeerAddress,
  type PeerHandle,
  type Timer,
  type WorkerComponents,
} from '@kvferry/connector-api'
import {
  asConnectorError,
  limitExceeded,
  peerUnavailable,
  HandshakeBackOff,
  addressFullError,
  addressOf,
  handshakesToStart,
  RankChannels,
} from '@kvferry/connector-api/protocol'
import {
  associationOf,
  isHandshaking,
  stepConnection,
  type ConnectionContext,
  type ConnectionEffect,
  type ConnectionEvent,
  type ConnectionState,
} from './connection-state.ts'
import { addPeer, associate, exchange } from './handshake.ts'
import { encodeSpeaker, messageKinds, type HandshakeRequest } from './messages.ts'
import type { RemoteRequest } from './metadata.ts'
import {
  linkAnswer,
  peerKey,
  type LinkAnswer,
  type PeerKey,
  type PeerListener,
} from './peer-listener.ts'
import type { PullCounters } from './pull-counters.ts'

interface ConnectionRecord {
  readonly key: PeerKey
  /** Of the producer. */
  readonly rank: number
  readonly address: PeerAddress
  readonly context: ConnectionContext
  readonly startedAtMs: number
  state: ConnectionState
  deadline: Timer | null
  /** False while as many handshakes as may are under way. */
  isStarted: boolean
}

export class PeerConnections {
  readonly #components: WorkerComponents
  readonly #counters: PullCounters
  readonly #listener: PeerListener
  readonly #own: HandshakeRequest
  readonly #handshakeTimeoutMs: number
  readonly #records = new Map<PeerKey, ConnectionRecord>()
  readonly #removals = new Set<Promise<void>>()
  readonly #channels: RankChannels
  readonly #backOff: HandshakeBackOff

  constructor(options: {
    readonly components: WorkerComponents
    readonly counters: PullCounters
    readonly listener: PeerListener
    /** What this rank says of itself. */
    readonly own: HandshakeRequest
    readonly handshakeTimeoutMs: number
  }) {
    this.#components = options.components
    this.#counters = options.counters
    this.#listener = options.listener
    this.#own = options.own
    this.#channels = new RankChannels(options.components.sideChannel, (association) =>
      this.#associationEnd(association),
    )
    this.#handshakeTimeoutMs = options.handshakeTimeoutMs
    this.#backOff = new HandshakeBackOff(options.components.clock, options.components.random)
  }

  /** The link to rank `rank` of `remote`, or the start of a handshake for it. */
  linkTo(remote: RemoteRequest, rank: number): LinkAnswer {
    const lookup = addressOf(remote, this.#components.config.peers)
    if (lookup.kind === 'stranger') return { kind: 'unavailable', error: lookup.error }
    const { address } = lookup
    const key = peerKey(address, remote.incarnation, rank)
    const known = this.#established(remote, rank) ?? this.#records.get(key)
    return known === undefined
      ? this.#connect({ key, rank, address }, remote.incarnation)
      : linkAnswer(known.key, known.state, remote.engineId)
  }

  /** A READ from this peer got its final status. */
  readEnd(key: PeerKey, isDone: boolean): void {
    const record = this.#records.get(key)
    if (record === undefined) return
    if (isDone) this.#dispatch(record, { kind: 'read-end' })
    this.#checkIdle(record)
  }

  /** Gives up every handshake and removes every peer, whatever is open. */
  async close(): Promise<void> {
    for (const record of [...this.#records.values()]) this.#dispatch(record, { kind: 'close' })
    await Promise.all(this.#removals)
  }

  /**
   * The connection that has reached that rank of that life of the engine, whatever name its place was called
   * by: two of them would be one peer of the agent, and the later one would make the earlier one's handles stale.
   */
  #established(
    { engineId, incarnation }: RemoteRequest,
    rank: number,
  ): ConnectionRecord | undefined {
    return [...this.#records.values()].find(
      ({ context, state, rank: of }) =>
        of === rank &&
        context.engineId === engineId &&
        context.incarnation === incarnation &&
        associationOf(state) !== null,
    )
  }

  #connect(
    place: Pick<ConnectionRecord, 'key' | 'rank' | 'address'>,
    incarnation: Incarnation,
  ): LinkAnswer {
    const { key, address } = place
    const recent = this.#backOff.errorOf(key)
    if (recent !== null) return { kind: 'unavailable', error: recent }
    const full = addressFullError(this.#open, address)
    if (full !== null) return { kind: 'unavailable', error: full }
    if (this.#records.size >= limits.peerCountMax) {
      const error = limitExceeded('peerCountMax', this.#records.size + 1, limits.peerCountMax)
      return { kind: 'unavailable', error }
    }
    const { clock } = this.#components
    const record: ConnectionRecord = {
      ...place,
      context: {
        ...{ engineId: address.engineId, incarnation, facts: this.#own.facts },
        handshakeTimeoutMs: this.#handshakeTimeoutMs,
      },
      startedAtMs: clock.now(),
      state: { kind: 'associating' },
      deadline: clock.after(this.#handshakeTimeoutMs, () =>
        this.#dispatch(record, { kind: 'deadline' }),
      ),
      isStarted: false,
    }
    this.#records.set(record.key, record)
    this.#startNext()
    return { kind: 'waiting', key }
  }

  get #open(): ConnectionRecord[] {
    return [...this.#records.values()].filter(({ state }) => isHandshaking(state))
  }

  #startNext(): void {
    for (const record of handshakesToStart(this.#open)) {
      record.isStarted = true
      const timeoutMs = this.#timeoutMs(record)
      void this.#run(record, associate(this.#channels.to(record.rank), record.address, timeoutMs))
    }
  }

  #associationEnd(association: Association): void {
    for (const record of [...this.#records.values()]) {
      if (associationOf(record.state) !== association) continue
      this.#dispatch(record, { kind: 'association-end' })
      this.#checkIdle(record)
    }
  }

  #checkIdle(record: ConnectionRecord): void {
    if (record.state.kind === 'draining' && !this.#listener.hasOpenReads(record.key)) {
      this.#dispatch(record, { kind: 'idle' })
    }
  }

  #dispatch(record: ConnectionRecord, event: ConnectionEvent): void {
    const { state, effects } = stepConnection(
      record.state,
      event,
      this.#components.clock.now(),
      record.context,
    )
    record.state = state
    const isHandshakeOver = !isHandshaking(state) && record.deadline !== null
    if (isHandshakeOver) {
      record.deadline?.stop()
      record.deadline = null
    }
    const isForgotten = state.kind === 'ended' && this.#records.get(record.key) === record
    if (isForgotten) this.#records.delete(record.key)
    for (const effect of effects) this.#perform(record, effect)
    if (isHandshakeOver) this.#startNext()
    if (isForgotten) this.#listener.onForgotten(record.key)
  }

  #perform(record: ConnectionRecord, effect: ConnectionEffect): void {
    switch (effect.kind) {
      case 'exchange':
        void this.#run(record, this.#exchange(record, effect.association))
        return
      case 'add':
        void this.#run(record, addPeer(this.#components.agent, record.rank, effect))
        return
      case 'announce-ready':
        this.#counters.add('handshakesDone')
        this.#backOff.succeed(record.key)
        this.#listener.onReady(record.key, effect.link)
        return
      case 'fail-waiting':
        this.#countFailure(record, effect.error)
        this.#backOff.fail(record.key, effect.error)
        this.#listener.onFailed(record.key, effect.error)
        return
      case 'tell-wired':
        void this.#tellWired(record, effect.association)
        return
      case 'remove':
        this.#remove(record, effect.peer)
        return
    }
  }

  #exchange(record: ConnectionRecord, association: Association): Promise<ConnectionEvent> {
    return exchange(this.#components, association, this.#own, this.#timeoutMs(record))
  }

  /** What is left of the handshake's time; the machine's own deadline is the last word. */
  #timeoutMs(record: ConnectionRecord): number {
    const elapsedMs = this.#components.clock.now() - record.startedAtMs
    return Math.max(1, this.#handshakeTimeoutMs - elapsedMs)
  }

  /** Runs one step of the handshake; its end, good or bad, is the machine's next event. */
  async #run(record: ConnectionRecord, step: Promise<ConnectionEvent>): Promise<void> {
    let event: ConnectionEvent
    try {
      event = await step
      // Both were called at once; loads that come now find the other.
      if (event.kind === 'associate-end' && this.#isTaken(event.association)) {
        throw peerUnavailable(record.address.engineId)
      }
    } catch (cause) {
      const context = { operation: 'handshake', peer: record.address.engineId }
      event = { kind: 'handshake-fail', error: asConnectorError(cause, context) }
    }
    this.#dispatch(record, event)
  }

  #isTaken(association: Association): boolean {
    return [...this.#records.values()].some(({ state }) => associationOf(state) === association)
  }

  async #tellWired(record: ConnectionRecord, association: Association): Promise<void> {
    try {
      await association.request(messageKinds.wired, encodeSpeaker(this.#own.rank))
    } catch (cause) {
      // The producer polls a while longer, until its own deadline.
      const error = asConnectorError(cause, { operation: 'wired', peer: record.address.engineId })
      this.#components.logger.debug('wired message lost', { code: error.code })
    }
  }

  #remove(record: ConnectionRecord, peer: PeerHandle): void {
    const removal = this.#removePeer(record, peer).finally(() => this.#removals.delete(removal))
    this.#removals.add(removal)
  }

  async #removePeer(record: ConnectionRecord, peer: PeerHandle): Promise<void> {
    try {
      await this.#components.agent.removePeer(peer)
    } catch (cause) {
      const context = { operation: 'remove peer', peer: record.address.engineId }
      this.#components.logger.warn(asConnectorError(cause, context).message)
    }
    this.#dispatch(record, { kind: 'remove-end' })
  }

  #countFailure(record: ConnectionRecord, error: AnyConnectorError): void {
    const { logger, metrics } = this.#components
    const { rank, address } = record
    this.#counters.add('handshakesFailed')
    metrics.add('kv_handshakes_failed_total', 1, { code: error.code })
    logger.warn(`handshake failed: ${error.message}`, { code: error.code, ...address, rank })
  }
}
