/**
 * The 128-bit tokens that a target hands out in handshakes, and the only proof it accepts that a
 * notification comes from that peer: names in notifications can be forged. One token per life of a
 * peer; it outlives the association, since transfers do too. A new life voids its predecessor's.
 */
import { timingSafeEqual } from 'node:crypto'
import { limits, type EngineId, type PeerIdentity, type Random } from '../index.ts'
import { limitExceeded } from './failures.ts'
import { protocolLimits } from './limits.ts'

interface TokenRecord {
  readonly identity: PeerIdentity
  readonly token: Uint8Array
}

export class PeerTokens {
  readonly #random: Random
  readonly #isNeeded: (identity: PeerIdentity) => boolean
  /** In order of last use, so that the bound forgets who has been silent longest. */
  readonly #records = new Map<EngineId, TokenRecord>()

  /** `isNeeded`: a notification of that peer may still come. Asked only when the table is full. */
  constructor(random: Random, isNeeded: (identity: PeerIdentity) => boolean) {
    this.#random = random
    this.#isNeeded = isNeeded
  }

  /**
   * The token of this identity, the same at every handshake.
   * @throws ConnectorError ERR_KV_LIMIT when the table is full of peers that are needed.
   */
  issue(identity: PeerIdentity): Uint8Array {
    const { engineId, incarnation } = identity
    const known = this.#records.get(engineId)
    if (known === undefined) this.#makeRoom()
    this.#records.delete(engineId)
    const record =
      known?.identity.incarnation === incarnation
        ? known
        : { identity, token: this.#random.bytes(protocolLimits.tokenSizeBytes) }
    this.#records.set(engineId, record)
    return record.token
  }

  /** Whose token it is, or null. Each comparison takes the same time whatever the bytes. */
  identify(token: Uint8Array): PeerIdentity | null {
    let found: TokenRecord | null = null
    for (const record of this.#records.values()) {
      if (timingSafeEqual(record.token, token)) found = record
    }
    if (found === null) return null
    const { identity } = found as TokenRecord
    this.#records.delete(identity.engineId)
    this.#records.set(identity.engineId, found)
    return identity
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
