/**
 * The two sides of one READ: a load's blocks on this rank, and on one of the producer's that has some of its
 * heads. Pure. Called by read-post.ts once the producer's layout is known.
 */
import type { BlockTableHandle, KvCacheLayout, TransferSide } from '@kvferry/connector-api'
import { planBetweenRanks, type PeerFacts } from '@kvferry/connector-api/protocol'
import { runOf, type LoadOrder } from './load-record.ts'

/** One rank's cache and its block table. */
export interface LocalCache {
  readonly caches: KvCacheLayout
  readonly table: BlockTableHandle
  readonly rank: number
  readonly tpSize: number
}

/** One rank of the producer. */
export interface RemoteCache {
  readonly facts: PeerFacts
  readonly table: BlockTableHandle
  readonly rank: number
}

export interface ReadPlan {
  readonly local: TransferSide
  readonly remote: TransferSide
}

/** @throws ConnectorError ERR_KV_LIMIT when it would take too many descriptors. */
export function planRead(
  order: LoadOrder,
  { caches, ...local }: LocalCache,
  { facts, ...remote }: RemoteCache,
): ReadPlan {
  const { blockIds, firstToken, end } = runOf(order, caches.blockTokens)
  const { source, target } = planBetweenRanks(
    {
      ...{ ...remote, layout: facts, tpSize: facts.tpSize },
      ...{ blockIds: order.handoff.blockIds, firstToken: 0 },
    },
    { ...local, layout: caches, blockIds, firstToken },
    { start: firstToken, end },
  )
  return { local: target, remote: source }
}
