/**
 * The consumer's leases, one with each producer rank that it reads from: what it was offered, from the arrival of a request until its blocks are read or
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
import type { Offer } from './load-record.ts'
import { decodeHeartbeatAnswer, encodeHeartbeat, messageKinds } from './messages.ts'
import type { PeerConnections } from './peer-connections.ts'
import type { PeerKey } from './peer-listener.ts'
import type { PullCounters } from './pull-counters.ts'

/** What one producer rank keeps for an offer. */
interface Share {
  readonly offer: Offer
  /** Of the producer. */
  readonly rank: number
  readonly offeredAt: Instant
  /** Renewed for so long, counted from when the renewal left; null before the first. */
  keptUntil: Instant | null
  /** Why it isn't renewed any more. */
  loss: AnyConnectorError | null
  /** Set while it waits for another attempt to reach the producer. */
  retry: Timer | null
}

interface OfferRecord {
  readonly offer: Offer
  readonly shares: Map<number, Share>
}

/** The shares of one rank of one life of a producer. */
interface Group {
  readonly key: PeerKey
  readonly shares: Set<Share>
  link: PeerLink | null
  timer: Timer | null
  beatAt: Instant
  isBeating: boolean
}

export class LeaseKeeper {
  readonly #components: WorkerComponents
  readonly #counters: PullCounters
  readonly #ranksOf: (tpSize: number) => readonly number[]
  /** Between two attempts to reach a producer that could not be reached. */
  readonly #retryMs: number
  readonly #offers = new Map<RequestId, OfferRecord>()
  readonly #groups = new Map<PeerKey, Group>()
  /** Offered in this turn. */
  #added: OfferRecord[] = []
  #isClosed = false

  constructor(options: {
    readonly components: WorkerComponents
    readonly counters: PullCounters
    /** Ranks of a producer of that size from which this rank reads. */
    readonly ranksOf: (tpSize: number) => readonly number[]
    readonly leaseDurationMs: number
  }) {
    this.#components = options.components
    this.#counters = options.counters
    this.#ranksOf = options.ranksOf
    this.#retryMs = heartbeatIntervalMs(options.leaseDurationMs)
  }

  offerOf(requestId: RequestId): Offer | null {
    return this.#offers.get(requestId)?.offer ?? null
  }

  /** Why that producer rank does not hold the lease any more, as far as it has said so. */
  lossOf(requestId: RequestId, rank: number): AnyConnectorError | null {
    return this.#shareOf(requestId, rank)?.loss ?? null
  }

  /** Whether a renewal of this consumer with that producer rank reaches beyond `now`. */
  isRenewed(requestId: RequestId, rank: number, now: Instant): boolean {
    const until = this.#shareOf(requestId, rank)?.keptUntil ?? null
    return until !== null && now < until
  }

  /**
   * Kept from the next `connect` on: most loads are ordered with their offers, and their READs go first.
   * Beyond the bound it is not kept; its load will be refused by name.
   */
  add(offer: Offer): void {
    if (this.#isClosed || this.#offers.size >= limits.requestCountMax) return
    const offeredAt = this.#components.clock.now()
    const record: OfferRecord = { offer, shares: new Map() }
    for (const rank of this.#ranksOf(offer.handoff.tpSize)) {
      const times = { offeredAt, keptUntil: null, loss: null, retry: null }
      record.shares.set(rank, { offer, rank, ...times })
    }
    this.#offers.set(offer.requestId, record)
    this.#added.push(record)
  }

  /** At the end of a turn: shakes hands for what was added in it, and is still wanted. */
  connect(peers: PeerConnections): void {
    if (this.#added.length === 0) return
    const added = this.#added
    this.#added = []
    for (const { shares } of added) {
      for (const share of shares.values()) this.#connect(peers, share)
    }
  }

  /** No renewal any more, with any rank. Idempotent. */
  end(requestId: RequestId): void {
    const record = this.#offers.get(requestId)
    if (record === undefined) return
    for (const rank of [...record.shares.keys()]) this.endShare(requestId, rank)
    this.#offers.delete(requestId)
  }

  /** No renewal any more with that producer rank. Idempotent. */
  endShare(requestId: RequestId, rank: number): void {
    const share = this.#shareOf(requestId, rank)
    if (share === null) return
    share.retry?.stop()
    this.#offers.get(requestId)!.shares.delete(rank)
    for (const group of this.#groups.values()) {
      if (!group.shares.delete(share)) continue
      if (group.shares.size === 0) this.#forget(group)
      return
    }
  }

  onReady(key: PeerKey, link: PeerLink): void {
    const group = this.#groups.get(key)
    if (group === undefined) return
    group.link = link
    for (const share of group.shares) this.#admit(group, link, share)
  }

  /** The producer can't be reached: its shares try again later, each on its own. */
  onFailed(peers: PeerConnections, key: PeerKey): void {
    for (const share of this.#dissolve(key)) this.#retry(peers, share)
  }

  onForgotten(peers: PeerConnections, key: PeerKey): void {
    for (const share of this.#dissolve(key)) this.#connect(peers, share)
  }

  /** Leaves no timer. */
  close(): void {
    this.#isClosed = true
    for (const group of this.#groups.values()) group.timer?.stop()
    for (const { shares } of this.#offers.values()) {
      for (const { retry } of shares.values()) retry?.stop()
    }
    this.#groups.clear()
    this.#offers.clear()
    this.#added = []
  }

  #shareOf(requestId: RequestId, rank: number): Share | null {
    return this.#offers.get(requestId)?.shares.get(rank) ?? null
  }

  #connect(peers: PeerConnections, share: Share): void {
    if (this.#isClosed) return
    const answer = peers.linkTo(share.offer.handoff.remote, share.rank)
    if (answer.kind === 'unavailable') {
      this.#retry(peers, share)
      return
    }
    const group = this.#groupOf(answer.key)
    group.shares.add(share)
    if (answer.kind === 'waiting') return
    group.link = answer.link
    this.#admit(group, answer.link, share)
  }

  #retry(peers: PeerConnections, share: Share): void {
    if (this.#isClosed) return
    share.retry = this.#components.clock.after(this.#retryMs, () => {
      share.retry = null
      this.#connect(peers, share)
    })
  }

  #groupOf(key: PeerKey): Group {
    const known = this.#groups.get(key)
    if (known !== undefined) return known
    const beatAt = Number.POSITIVE_INFINITY as Instant
    const shares = new Set<Share>()
    const group: Group = { key, shares, link: null, timer: null, beatAt, isBeating: false }
    this.#groups.set(key, group)
    return group
  }

  #forget(group: Group): void {
    group.timer?.stop()
    this.#groups.delete(group.key)
  }

  #dissolve(key: PeerKey): Share[] {
    const group = this.#groups.get(key)
    if (group === undefined) return []
    this.#forget(group)
    return [...group.shares]
  }

  /** Key and clock of the producer are known: a forged offer is never renewed. */
  #admit(group: Group, link: PeerLink, share: Share): void {
    const { handoff } = share.offer
    share.loss ??= forgeryError(handoff, link)
    if (share.loss !== null) return
    const now = this.#components.clock.now()
    const intervalMs = heartbeatIntervalMs(link.leaseDurationMs)
    const leftMs = link.clock.longestUntil(handoff.leaseDeadlineMs, now)
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
    const kept = [...group.shares].filter(
      ({ loss, offeredAt }) => loss === null && now < instantPlus(offeredAt, longestMs),
    )
    const byRemoteId = new Map(kept.map((share) => [share.offer.handoff.remote.requestId, share]))
    group.isBeating = true
    const portions = heartbeatPortions([...byRemoteId.keys()])
    await Promise.all(portions.map((ids) => this.#renew(link, ids, byRemoteId)))
    group.isBeating = false
  }

  async #renew(
    link: PeerLink,
    ids: readonly RequestId[],
    byRemoteId: ReadonlyMap<RequestId, Share>,
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
        const share = byRemoteId.get(id)!
        if (answer.isHeld[at]!) share.keptUntil = keptUntil
        else share.loss ??= lost(share.offer.requestId)
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
