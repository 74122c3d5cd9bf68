/**
 * The 128-bit tokens that a target hands out in handshakes, and the only proof it accepts that a
 * notification comes from that peer: names in notifications can be forged. One token per life of a
 * peer; it outlives the association, since transfers do too. A new life voids its predecessor's.
 */
import { timingSafeEqual } from 'node:crypto'
import { limits, type EngineId, type PeerIdentity, type Random } from '../index.ts'
import { protocolLimits } from './limits.ts'

interface TokenRecord {
  readonly identity: PeerIdentity
  readonly token: Uint8Array
}

export class PeerTokens {
  readonly #random: Random
  /** In order of last handshake, so that the bound forgets who has been silent longest. */
  readonly #records = new Map<EngineId, TokenRecord>()

  constructor(random: Random) {
    this.#random = random
  }

  /** The token of this identity, the same at every handshake. */
  issue(identity: PeerIdentity): Uint8Array {
    const { engineId, incarnation } = identity
    const known = this.#records.get(engineId)
    this.#records.delete(engineId)
    if (this.#records.size >= limits.peerCountMax) {
      const [oldest] = this.#records.keys()
      this.#records.delete(oldest!)
    }
    const record =
      known?.identity.incarnation === incarnation
        ? known
        : { identity, token: this.#random.bytes(protocolLimits.tokenSizeBytes) }
    this.#records.set(engineId, record)
    return record.token
  }

  /** Whose token it is, or null. Each comparison takes the same time whatever the bytes. */
  identify(token: Uint8Array): PeerIdentity | null {
    let found: PeerIdentity | null = null
    for (const record of this.#records.values()) {
      if (timingSafeEqual(record.token, token)) found = record.identity
    }
    return found
  }
}
