/**
 * What the consumer was offered and has not asked for yet, from the arrival of a request until it has blocks
 * or is given up: shakes hands early, while the producer computes. Also tells producers of what is not
 * needed. Owned by consumer-worker.ts.
 */
import {
  limits,
  instantPlus,
  type WorkerComponents,
  type Instant,
  type RequestId,
} from '../index.ts'
import { asConnectorError, matchingRanks } from '../protocol/index.ts'
import type { Offer } from './offer.ts'
import { writeLimits } from './limits.ts'
import { encodeRelease, kindOf } from './messages.ts'
import type { LinkKey, ProducerLink, ProducerLinks } from './producer-links.ts'
import type { WriteCounters } from './write-counters.ts'
import type { Speaker } from './registration-client.ts'

interface OfferRecord {
  readonly offer: Offer
  readonly offeredAt: Instant
}

interface Release {
  readonly offer: Pick<Offer, 'transferId' | 'producer'>
  readonly rank: number
}

export class OfferKeeper {
  readonly #components: WorkerComponents
  readonly #counters: WriteCounters
  readonly #speaker: Speaker
  readonly #links: () => ProducerLinks
  readonly #offers = new Map<RequestId, OfferRecord>()
  readonly #givenUp = new Set<string>()
  /** Waiting for a link. */
  readonly #releases = new Map<Release, LinkKey>()
  #inFlight = 0

  constructor(counters: WriteCounters, speaker: Speaker, links: () => ProducerLinks) {
    this.#components = speaker.components
    this.#counters = counters
    this.#speaker = speaker
    this.#links = links
  }

  /** Which links to its producer are there already. Beyond the bound it is not kept; its load will be refused by name. */
  add(offer: Offer): ProducerLink[] {
    if (this.#offers.size >= limits.requestCountMax) return []
    this.#offers.set(offer.requestId, { offer, offeredAt: this.#components.clock.now() })
    const answers = this.#ranksOf(offer).map((rank) => this.#links().linkTo(offer.producer, rank))
    return answers.flatMap((answer) => (answer.kind === 'ready' ? [answer.link] : []))
  }

  /** It is asked for, or given up. */
  take(requestId: RequestId): Offer | null {
    const record = this.#offers.get(requestId)
    this.#offers.delete(requestId)
    if (record !== undefined) this.#givenUp.delete(record.offer.transferId)
    return record?.offer ?? null
  }

  /** Transfers that this producer rank is to keep blocks for a while longer. */
  keptOver({ identity, rank }: ProducerLink): string[] {
    const now = this.#components.clock.now()
    const kept: string[] = []
    for (const { offer, offeredAt } of this.#offers.values()) {
      const isOfThis = offer.producer.engineId === identity.engineId
      const isFresh = now < instantPlus(offeredAt, this.#longestMs())
      if (this.#givenUp.has(offer.transferId)) continue
      if (isOfThis && isFresh && this.#ranksOf(offer).includes(rank)) kept.push(offer.transferId)
    }
    return kept
  }

  /** Its producer need not keep it any longer: here is no room, and both would wait for each other. */
  giveUp(transferId: string): void {
    for (const { offer } of this.#offers.values()) {
      if (offer.transferId !== transferId || this.#givenUp.has(transferId)) continue
      this.#givenUp.add(transferId)
      this.#counters.add('offersGivenUp')
      this.#components.logger.warn('no room for blocks that are computed: given up', {
        ...{ requestId: offer.requestId, engineId: offer.producer.engineId },
      })
      this.release(offer)
    }
  }

  /** Nothing of it is needed: told to every rank that would have written. */
  release(offer: Offer): void {
    for (const rank of this.#ranksOf(offer)) this.releaseRank(offer, rank)
  }

  releaseRank(offer: Release['offer'], rank: number): void {
    if (this.#releases.size + this.#inFlight >= writeLimits.newsInFlightMax) {
      this.#counters.add('newsDropped')
      return
    }
    const answer = this.#links().linkTo(offer.producer, rank)
    if (answer.kind === 'waiting') this.#releases.set({ offer, rank }, answer.key)
    else if (answer.kind === 'ready') void this.#deliver(offer.transferId, answer.link)
    else this.#counters.add('newsDropped')
  }

  onReady(link: ProducerLink): void {
    for (const { offer } of this.#takeReleases(link.key)) void this.#deliver(offer.transferId, link)
  }

  /** Its association ended: what its producer keeps for us needs another one, for the heartbeats. */
  onEnd({ identity, rank }: ProducerLink): void {
    for (const { offer } of this.#offers.values()) {
      const isOfThis = offer.producer.engineId === identity.engineId
      if (!isOfThis || !this.#ranksOf(offer).includes(rank)) continue
      this.#links().linkTo(offer.producer, rank)
      return
    }
  }

  onFailed(key: LinkKey): void {
    this.#takeReleases(key).forEach(() => this.#counters.add('newsDropped'))
  }

  close(): void {
    this.#offers.clear()
    this.#givenUp.clear()
    this.#releases.clear()
  }

  #longestMs(): number {
    return writeLimits.waitingLeaseCountMax * limits.leaseDurationMs
  }

  #ranksOf({ producer }: Pick<Offer, 'producer'>): number[] {
    const { rank, facts } = this.#speaker
    return matchingRanks(rank, facts.tpSize, producer.tpSize)
  }

  #takeReleases(key: LinkKey): Release[] {
    const taken = [...this.#releases].filter(([, of]) => of === key).map(([release]) => release)
    for (const release of taken) this.#releases.delete(release)
    return taken
  }

  /** Lost, it costs the producer the rest of a lease. */
  async #deliver(transferId: string, { association, rank }: ProducerLink): Promise<void> {
    this.#inFlight += 1
    try {
      const { protocol, rank: ownRank } = this.#speaker
      const body = encodeRelease({ rank: ownRank, transferId })
      await association.request(kindOf(protocol, 'release', rank), body)
    } catch (cause) {
      const context = { operation: 'release', peer: association.peer.engineId }
      const { code, message } = asConnectorError(cause, context)
      this.#components.logger.debug(`release lost: ${message}`, { code })
    } finally {
      this.#inFlight -= 1
    }
  }
}
