/**
 * The ranks of consumers that shook hands with this rank: who a message or a notification is from, and how
 * many of its ranks read from here. Owned by producer-worker.ts.
 */
import { ConnectorError, type PeerIdentity, type Random } from '@kvferry/connector-api'
import {
  matchingRanks,
  PeerTokens,
  rankMismatch,
  type PeerRank,
  type RankPlace,
} from '@kvferry/connector-api/protocol'
import type { Reader, Share } from './lease-state.ts'

/** One rank of one life of a consumer, and its share of whatever its engine reads from this rank. */
export interface ConsumerRank {
  readonly engineId: Reader['engineId']
  readonly incarnation: Reader['incarnation']
  readonly share: Share
}

/** That load of that consumer. */
export const readerOf = ({ engineId, incarnation }: ConsumerRank, loadId: number): Reader => ({
  engineId,
  incarnation,
  loadId,
})

export class ConsumerRanks {
  readonly #own: RankPlace
  readonly #tokens: PeerTokens

  /** `isNeeded`: that life of a consumer has an open lease. */
  constructor(random: Random, own: RankPlace, isNeeded: (peer: PeerIdentity) => boolean) {
    this.#own = own
    this.#tokens = new PeerTokens(random, isNeeded)
  }

  /**
   * The token that it proves itself with.
   * @throws ConnectorError ERR_KV_PEER_INCOMPATIBLE when it has none of this rank's heads: it would be counted
   * as one of its readers.
   */
  admit(peer: PeerIdentity, place: RankPlace): Uint8Array {
    const ranks = this.#readersOf(place.tpSize)
    if (!ranks.includes(place.rank)) throw rankMismatch(peer.engineId, place.rank, ranks)
    return this.#tokens.issue(peer, place)
  }

  /** @throws ConnectorError ERR_KV_UNAUTHORISED before its handshake. */
  of(peer: PeerIdentity, rank: number): ConsumerRank {
    const known = this.#tokens.rankOf(peer, rank)
    if (known !== null) return this.#consumer(known)
    const reason = `rank ${rank} of ${peer.engineId} has not shaken hands`
    throw new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason })
  }

  /** Whose token it is, or null. */
  identify(token: Uint8Array): ConsumerRank | null {
    const known = this.#tokens.identify(token)
    return known === null ? null : this.#consumer(known)
  }

  #consumer({ engineId, incarnation, rank, tpSize }: PeerRank): ConsumerRank {
    return { engineId, incarnation, share: { rank, count: this.#readersOf(tpSize).length } }
  }

  /** Of a consumer with so many ranks. */
  #readersOf(tpSize: number): number[] {
    return matchingRanks(this.#own.rank, this.#own.tpSize, tpSize)
  }
}
