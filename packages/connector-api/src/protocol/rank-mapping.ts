/**
 * Which ranks of two engines exchange KV, and which heads: rank `r` of `n` has the `r`-th n-th of the heads.
 * Sizes must be whole multiples of one another (facts.ts refuses others). Pure.
 */

import { ConnectorError, type AnyConnectorError } from '../index.ts'

/** Whether ranks of engines of these sizes can exchange heads: of the larger, whole numbers make a smaller's. */
export const canMapRanks = (size: number, otherSize: number): boolean =>
  size % otherSize === 0 || otherSize % size === 0

/** Ranks of an engine of `size` that have heads which rank `ofRank` of an engine of `ofSize` has too. */
export function matchingRanks(ofRank: number, ofSize: number, size: number): number[] {
  if (size <= ofSize) return [Math.floor((ofRank * size) / ofSize)]
  const count = size / ofSize
  return Array.from({ length: count }, (_, index) => ofRank * count + index)
}

/** Of the `headCount` heads of rank `rank` of `size`, the first that rank `otherRank` of `otherSize` has too. */
export function firstSharedHead(
  { rank, size, headCount }: { rank: number; size: number; headCount: number },
  otherRank: number,
  otherSize: number,
): number {
  if (otherSize <= size) return 0
  const shares = otherSize / size
  return (otherRank - rank * shares) * (headCount / shares)
}

/** That rank of `peer` shakes hands with one that has none of its heads; it shares some with `ranks` only. */
export function rankMismatch(
  peer: string,
  rank: number,
  ranks: readonly number[],
): AnyConnectorError {
  const [local, remote] = [`one of ${ranks.join(', ')}`, String(rank)]
  const message = `${peer}: rank ${remote} shares no heads with this rank, only ${local}`
  const details = { peer, field: 'rank', local, remote }
  return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, details)
}
