/** The plan of a transfer between two ranks of engines whose TP sizes may differ: the heads that both have. Pure. */
import { firstSharedHead } from './rank-mapping.ts'
import { planTransfer, type PlanSide, type TokenRange, type TransferPlan } from './transfer-plan.ts'

/** Blocks of one request on one rank. */
export interface RankSide extends Omit<PlanSide, 'firstHead'> {
  readonly rank: number
  readonly tpSize: number
}

/** @throws ConnectorError ERR_KV_LIMIT when it would take too many descriptors. */
export function planBetweenRanks(
  source: RankSide,
  target: RankSide,
  range: TokenRange,
): TransferPlan {
  const headCount = Math.min(source.layout.kvHeadCount, target.layout.kvHeadCount)
  return planTransfer(sideOf(source, target), sideOf(target, source), range, headCount)
}

function sideOf({ rank, tpSize, ...side }: RankSide, other: RankSide): PlanSide {
  const own = { rank, size: tpSize, headCount: side.layout.kvHeadCount }
  return { ...side, firstHead: firstSharedHead(own, other.rank, other.tpSize) }
}
