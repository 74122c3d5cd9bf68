/**
 * Blocks out of service: a READ is past its deadline and may still write into them (architecture's rule
 * on reuse). Nothing can hurry it, so the count is published, bounded as a share of the pool, and new
 * loads are refused beyond that, before the pool runs dry unseen. Pure.
 */
import { blockCountOf, type LoadRecord } from './load-record.ts'
import type { LoadState } from './load-state.ts'

const isQuarantined = ({ kind }: LoadState): boolean =>
  kind === 'overdue' || kind === 'draining-overdue'

/** By how many blocks the count changes when a load goes from one state to another. */
export const quarantineChange = (
  { order }: LoadRecord,
  before: LoadState,
  after: LoadState,
): number => (Number(isQuarantined(after)) - Number(isQuarantined(before))) * blockCountOf(order)
