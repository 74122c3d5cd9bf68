/**
 * The two sides of one READ, and what is left to do with its bytes: a load's blocks as connector-api's
 * plan of transfers wants them. Pure. Called by block-reader.ts once the producer's layout is known.
 */
import type { BlockTableHandle, KvCacheLayout, TransferSide } from '@kvferry/connector-api'
import {
  planTransfer,
  relayoutOf,
  type PeerFacts,
  type Relayout,
} from '@kvferry/connector-api/protocol'
import type { LoadOrder } from './load-record.ts'

/** One rank's cache and its block table. */
export interface LocalCache {
  readonly caches: KvCacheLayout
  readonly table: BlockTableHandle
}

export interface ReadPlan {
  readonly local: TransferSide
  readonly remote: TransferSide
  readonly relayout: Relayout | null
}

/** @throws ConnectorError ERR_KV_LIMIT when it would take too many descriptors. */
export function planRead(
  { handoff, localBlockIds, tokenEnd: end }: LoadOrder,
  { caches, table }: LocalCache,
  remote: { readonly facts: PeerFacts; readonly table: BlockTableHandle },
): ReadPlan {
  const blockIds = localBlockIds[0]!
  // What was hit locally is missing in front, in whole blocks of ours.
  const start = (Math.ceil(end / caches.blockTokens) - blockIds.length) * caches.blockTokens
  const { source, target } = planTransfer(
    {
      layout: remote.facts,
      table: remote.table,
      blockIds: handoff.blockIds,
      firstToken: 0,
      firstHead: 0,
    },
    { layout: caches, table, blockIds, firstToken: start, firstHead: 0 },
    { start, end },
    caches.kvHeadCount,
  )
  const relayout = relayoutOf(caches, remote.facts, { blockIds, firstToken: start, end })
  return { local: target, remote: source, relayout }
}
