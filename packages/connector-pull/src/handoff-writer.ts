/**
 * Writes this engine's handoffs: knows where its side channel listens and the keys of its ranks, and signs.
 * Owned by scheduler.ts. The deadline is a reading of the machine's monotonic clock, which both halves of
 * an engine and the rank that answers a consumer's handshake share; it never meets another machine's.
 */
import type {
  EngineId,
  Incarnation,
  Instant,
  KvTransferParams,
  RankKey,
  RequestId,
} from '@kvferry/connector-api'
import { unsupported } from '@kvferry/connector-api/protocol'
import { rankKey } from '@kvferry/connector-api'
import { encodeHandoff } from './handoff.ts'
import { signHandoff } from './handoff-signature.ts'
import type { HandoffClaims } from './metadata.ts'
import { decodeRankMetadata, type RankMetadata } from './rank-metadata.ts'

export interface HandoffContent {
  readonly blockIds: Uint32Array
  readonly tokenCount: number
  readonly promptDigest: Uint8Array
  readonly leaseDeadline: Instant
  readonly isReturn: boolean
}

export class HandoffWriter {
  readonly #engine: { readonly engineId: EngineId; readonly incarnation: Incarnation }
  readonly #blockTokens: number
  readonly #ranks: readonly RankMetadata[]

  /** @throws ConnectorError ERR_KV_UNSUPPORTED (ranks missing, pipeline stages), ERR_KV_MESSAGE_INVALID. */
  constructor(
    engine: { readonly engineId: EngineId; readonly incarnation: Incarnation },
    blockTokens: number,
    byRank: ReadonlyMap<RankKey, Uint8Array>,
  ) {
    this.#engine = engine
    this.#blockTokens = blockTokens
    if (byRank.size === 0) throw unsupported('tensorParallel', 'an engine without ranks')
    this.#ranks = Array.from({ length: byRank.size }, (_, tpRank) => {
      const bytes = byRank.get(rankKey(0, tpRank))
      if (bytes !== undefined) return decodeRankMetadata(bytes)
      throw unsupported('tensorParallel', `rank 0,${tpRank} of ${byRank.size} is missing`)
    })
  }

  get tpSize(): number {
    return this.#ranks.length
  }

  write(requestId: RequestId, content: HandoffContent): KvTransferParams {
    const [first] = this.#ranks
    const { host, port } = first!
    const claims: HandoffClaims = {
      remote: { ...this.#engine, host, port, requestId },
      blockIds: content.blockIds,
      tokenCount: content.tokenCount,
      promptDigest: content.promptDigest,
      blockTokens: this.#blockTokens,
      tpSize: this.tpSize,
      leaseDeadlineMs: content.leaseDeadline,
    }
    const keys = this.#ranks.map(({ handoffKey }) => handoffKey)
    return encodeHandoff({
      ...claims,
      signature: signHandoff(claims, keys),
      isReturn: content.isReturn,
    })
  }
}
