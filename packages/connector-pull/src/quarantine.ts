/**
 * Blocks out of service: a READ is past its deadline and may still write into them (architecture's rule
 * on reuse). Nothing can hurry it, so the count is published, bounded as a share of the pool, and new
 * loads are refused beyond that, before the pool runs dry unseen. Computed from the loads, never stored.
 */
import { blockCountOf, type LoadRecord } from './load-record.ts'

export function quarantinedBlockCount(loads: Iterable<LoadRecord>): number {
  let count = 0
  for (const { state, order } of loads) {
    if (state.kind === 'overdue' || state.kind === 'draining-overdue') count += blockCountOf(order)
  }
  return count
}
