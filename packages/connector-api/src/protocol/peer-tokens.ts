/**
 * The 128-bit tokens that a target hands out in handshakes, and the only proof it accepts that a
 * notification comes from that peer: names in notifications can be forged. One token per rank of a life of a
 * peer; it outlives the association, since transfers do too. A new life voids its predecessor's.
 */
import { timingSafeEqual } from 'node:crypto'
import { limits, type EngineId, type PeerIdentity, type Random } from '../index.ts'
import { limitExceeded } from './failures.ts'
import { protocolLimits } from './limits.ts'

/** Which of a peer's ranks, and of how many. */
export interface RankPlace {
  readonly rank: number
  readonly tpSize: number
}

/** One rank of one life of a peer. */
export interface PeerRank extends PeerIdentity, RankPlace {}

interface PeerRecord {
  readonly identity: PeerIdentity
  /** By rank: at most `tpSizeMax`. */
  readonly ranks: Map<number, { readonly peer: PeerRank; readonly token: Uint8Array }>
}

export class PeerTokens {
  readonly #random: Random
  readonly #isNeeded: (identity: PeerIdentity) => boolean
  /** In order of last use, so that the bound forgets who has been silent longest. */
  readonly #records = new Map<EngineId, PeerRecord>()

  /** `isNeeded`: a notification of that peer may still come. Asked only when the table is full. */
  constructor(random: Random, isNeeded: (identity: PeerIdentity) => boolean) {
    this.#random = random
    this.#isNeeded = isNeeded
  }

  /**
   * The token of this rank of this identity, the same at every handshake.
   * @throws ConnectorError ERR_KV_LIMIT when the table is full of peers that are needed.
   */
  issue(identity: PeerIdentity, place: RankPlace = { rank: 0, tpSize: 1 }): Uint8Array {
    const { ranks } = this.#touch(identity)
    const { engineId, incarnation } = identity
    const token = ranks.get(place.rank)?.token ?? this.#random.bytes(protocolLimits.tokenSizeBytes)
    ranks.set(place.rank, { peer: { engineId, incarnation, ...place }, token })
    return token
  }

  /** Whose token it is, or null. Each comparison takes the same time whatever the bytes. */
  identify(token: Uint8Array): PeerRank | null {
    let found: PeerRank | null = null
    for (const { ranks } of this.#records.values()) {
      for (const record of ranks.values()) {
        if (timingSafeEqual(record.token, token)) found = record.peer
      }
    }
    if (found !== null) this.#touch(found)
    return found
  }

  /** What that rank of a peer said of itself in its handshake; null before. */
  rankOf({ engineId, incarnation }: PeerIdentity, rank: number): PeerRank | null {
    const known = this.#records.get(engineId)
    if (known?.identity.incarnation !== incarnation) return null
    return known.ranks.get(rank)?.peer ?? null
  }

  #touch(identity: PeerIdentity): PeerRecord {
    const { engineId, incarnation } = identity
    const known = this.#records.get(engineId)
    if (known === undefined) this.#makeRoom()
    this.#records.delete(engineId)
    const record =
      known?.identity.incarnation === incarnation ? known : { identity, ranks: new Map() }
    this.#records.set(engineId, record)
    return record
  }

  #makeRoom(): void {
    if (this.#records.size < limits.peerCountMax) return
    for (const { identity } of this.#records.values()) {
      if (this.#isNeeded(identity)) continue
      this.#records.delete(identity.engineId)
      return
    }
    throw limitExceeded('peerCountMax', this.#records.size + 1, limits.peerCountMax)
  }
}
