/**
 * The consumer's leases: what it was offered, from the arrival of a request until its blocks are read or
 * given up. Shakes hands early, so that the producer can be told, renews in batches per producer on a
 * timer of its own (an engine that takes no step loses nothing), and remembers what a producer no longer
 * holds, so that it isn't read. Owned by consumer-worker.ts; decides nothing about a load's bytes.
 */
import {
  ConnectorError,
  instantPlus,
  limits,
  type AnyConnectorError,
  type Instant,
  type RequestId,
  type Timer,
  type WorkerComponents,
} from '@kvferry/connector-api'
import {
  asConnectorError,
  firstHeartbeatDelayMs,
  heartbeatIntervalMs,
  heartbeatPortions,
} from '@kvferry/connector-api/protocol'
import type { PeerLink } from './connection-state.ts'
import { forgeryError } from './handoff-check.ts'
import { pullLimits } from './limits.ts'
import { decodeHeartbeatAnswer, encodeHeartbeat, messageKinds } from './messages.ts'
import type { Handoff } from './metadata.ts'
import type { PeerConnections, PeerKey } from './peer-connections.ts'
import type { PullCounters } from './pull-counters.ts'

interface Offer {
  readonly requestId: RequestId
  readonly handoff: Handoff
  readonly offeredAt: Instant
  /** Renewed for so long, counted from when the renewal left; null before the first. */
  keptUntil: Instant | null
  /** Why it isn't renewed any more. */
  loss: AnyConnectorError | null
}

/** The offers of one life of one producer. */
interface Group {
  readonly key: PeerKey
  readonly offers: Map<RequestId, Offer>
  link: PeerLink | null
  timer: Timer | null
  beatAt: Instant
  isBeating: boolean
}

export class LeaseKeeper {
  readonly #components: WorkerComponents
  readonly #counters: PullCounters
  readonly #tpRank: number
  /** Between two attempts to reach a producer that could not be reached. */
  readonly #retryMs: number
  readonly #offers = new Map<RequestId, Offer>()
  readonly #groups = new Map<PeerKey, Group>()
  readonly #retries = new Map<RequestId, Timer>()
  #isClosed = false

  constructor(options: {
    readonly components: WorkerComponents
    readonly counters: PullCounters
    readonly tpRank: number
    readonly leaseDurationMs: number
  }) {
    this.#components = options.components
    this.#counters = options.counters
    this.#tpRank = options.tpRank
    this.#retryMs = heartbeatIntervalMs(options.leaseDurationMs)
  }

  handoffOf(requestId: RequestId): Handoff | null {
    return this.#offers.get(requestId)?.handoff ?? null
  }

  /** Why the producer does not hold the lease any more, as far as it has said so. */
  lossOf(requestId: RequestId): AnyConnectorError | null {
    return this.#offers.get(requestId)?.loss ?? null
  }

  /** Whether a renewal of this consumer reaches beyond `now`. */
  isRenewed(requestId: RequestId, now: Instant): boolean {
    const until = this.#offers.get(requestId)?.keptUntil ?? null
    return until !== null && now < until
  }

  /** Beyond the bound it is not kept; its load will be refused by name. */
  add(peers: PeerConnections, requestId: RequestId, handoff: Handoff): void {
    if (this.#isClosed || this.#offers.size >= limits.requestCountMax) return
    const offeredAt = this.#components.clock.now()
    const offer: Offer = { requestId, handoff, offeredAt, keptUntil: null, loss: null }
    this.#offers.set(requestId, offer)
    this.#connect(peers, offer)
  }

  /** No renewal any more. Idempotent. */
  end(requestId: RequestId): void {
    this.#retries.get(requestId)?.stop()
    this.#retries.delete(requestId)
    if (!this.#offers.delete(requestId)) return
    for (const group of this.#groups.values()) {
      if (!group.offers.delete(requestId)) continue
      if (group.offers.size === 0) this.#forget(group)
      return
    }
  }

  onReady(key: PeerKey, link: PeerLink): void {
    const group = this.#groups.get(key)
    if (group === undefined) return
    group.link = link
    for (const offer of group.offers.values()) this.#admit(group, link, offer)
  }

  /** The producer can't be reached: its offers try again later, each on its own. */
  onFailed(peers: PeerConnections, key: PeerKey): void {
    for (const offer of this.#dissolve(key)) this.#retry(peers, offer)
  }

  onForgotten(peers: PeerConnections, key: PeerKey): void {
    for (const offer of this.#dissolve(key)) this.#connect(peers, offer)
  }

  /** Leaves no timer. */
  close(): void {
    this.#isClosed = true
    for (const group of this.#groups.values()) group.timer?.stop()
    for (const timer of this.#retries.values()) timer.stop()
    this.#groups.clear()
    this.#retries.clear()
    this.#offers.clear()
  }

  #connect(peers: PeerConnections, offer: Offer): void {
    if (this.#isClosed) return
    const answer = peers.linkTo(offer.handoff.remote)
    if (answer.kind === 'unavailable') {
      this.#retry(peers, offer)
      return
    }
    const group = this.#groupOf(answer.key)
    group.offers.set(offer.requestId, offer)
    if (answer.kind === 'waiting') return
    group.link = answer.link
    this.#admit(group, answer.link, offer)
  }

  #retry(peers: PeerConnections, offer: Offer): void {
    if (this.#isClosed) return
    const { requestId } = offer
    const timer = this.#components.clock.after(this.#retryMs, () => {
      this.#retries.delete(requestId)
      this.#connect(peers, offer)
    })
    this.#retries.set(requestId, timer)
  }

  #groupOf(key: PeerKey): Group {
    const known = this.#groups.get(key)
    if (known !== undefined) return known
    const beatAt = Number.POSITIVE_INFINITY as Instant
    const offers = new Map<RequestId, Offer>()
    const group: Group = { key, offers, link: null, timer: null, beatAt, isBeating: false }
    this.#groups.set(key, group)
    return group
  }

  #forget(group: Group): void {
    group.timer?.stop()
    this.#groups.delete(group.key)
  }

  #dissolve(key: PeerKey): Offer[] {
    const group = this.#groups.get(key)
    if (group === undefined) return []
    this.#forget(group)
    return [...group.offers.values()]
  }

  /** Key and clock of the producer are known: a forged offer is never renewed. */
  #admit(group: Group, link: PeerLink, offer: Offer): void {
    offer.loss ??= forgeryError(offer.handoff, link, this.#tpRank)
    if (offer.loss !== null) return
    const now = this.#components.clock.now()
    const intervalMs = heartbeatIntervalMs(link.leaseDurationMs)
    const leftMs = link.clock.longestUntil(offer.handoff.leaseDeadlineMs, now)
    this.#arm(group, instantPlus(now, firstHeartbeatDelayMs(leftMs, intervalMs)))
  }

  /** The earliest of the wanted times wins. */
  #arm(group: Group, at: Instant): void {
    if (at >= group.beatAt) return
    group.timer?.stop()
    group.beatAt = at
    const { clock } = this.#components
    group.timer = clock.after(Math.max(0, at - clock.now()), () => void this.#beat(group))
  }

  async #beat(group: Group): Promise<void> {
    const { link } = group
    group.beatAt = Number.POSITIVE_INFINITY as Instant
    if (link === null) return
    const now = this.#components.clock.now()
    this.#arm(group, instantPlus(now, heartbeatIntervalMs(link.leaseDurationMs)))
    // A producer that is slow to answer isn't asked again meanwhile.
    if (group.isBeating) return
    const longestMs = pullLimits.waitingLeaseCountMax * link.leaseDurationMs
    const kept = [...group.offers.values()].filter(
      ({ loss, offeredAt }) => loss === null && now < instantPlus(offeredAt, longestMs),
    )
    const byRemoteId = new Map(kept.map((offer) => [offer.handoff.remote.requestId, offer]))
    group.isBeating = true
    const portions = heartbeatPortions([...byRemoteId.keys()])
    await Promise.all(portions.map((ids) => this.#renew(link, ids, byRemoteId)))
    group.isBeating = false
  }

  async #renew(
    link: PeerLink,
    ids: readonly RequestId[],
    byRemoteId: ReadonlyMap<RequestId, Offer>,
  ): Promise<void> {
    const { clock, logger } = this.#components
    const { association } = link
    const sentAt = clock.now()
    try {
      const body = await association.request(messageKinds.heartbeat, encodeHeartbeat(ids))
      const answer = decodeHeartbeatAnswer(body, ids.length, association.peer.engineId)
      link.clock.learn({ sentAt, receivedAt: clock.now(), remoteMs: answer.clockMs })
      this.#counters.add('heartbeatsDone')
      const keptUntil = instantPlus(sentAt, answer.durationMs - limits.leaseSafetyMarginMs)
      for (const [at, id] of ids.entries()) {
        const offer = byRemoteId.get(id)!
        if (answer.isHeld[at]!) offer.keptUntil = keptUntil
        else offer.loss ??= lost(offer.requestId)
      }
    } catch (cause) {
      const context = { operation: 'heartbeat', peer: association.peer.engineId }
      const error = asConnectorError(cause, context)
      this.#counters.add('heartbeatsFailed')
      logger.debug(`heartbeat lost: ${error.message}`, { code: error.code })
    }
  }
}

function lost(requestId: RequestId): AnyConnectorError {
  const message = 'the producer gave the blocks up before they were read'
  return new ConnectorError('ERR_KV_LEASE_EXPIRED', message, { requestId })
}
