/**
 * What a connector with tickets and a history counts, by meaning. Names are those of the published design,
 * written as `history_hit_blocks` or `historyHitBlocks`, with `gpu`/`cpu` or `device`/`host` for the tiers.
 * Pure.
 */
import type { Counters } from './experiment-trial.ts'

export const historyCounterNames = {
  registered: 'direct_registered',
  finished: 'direct_finished',
  expired: 'direct_expired',
  networkHostBatches: 'cpu_batches',
  loads: 'history_loaded_requests',
  hitBlocks: 'history_hit_blocks',
  deviceHitBlocks: 'history_gpu_hit_blocks',
  hostHitBlocks: 'history_cpu_hit_blocks',
  savedBlocks: 'history_saved_blocks',
  demotions: 'demotions',
  failures: 'history_failures',
  rejectedBlocks: 'history_admission_rejected_blocks',
  capacityLimitedBlocks: 'history_capacity_limited_blocks',
  deadlineDroppedBlocks: 'history_deadline_dropped_blocks',
  skippedRequests: 'history_skipped_requests',
} as const

export type HistoryCounterName = keyof typeof historyCounterNames
export type HistoryCounters = Readonly<Record<HistoryCounterName, number>>

export const historyNames = Object.keys(historyCounterNames) as readonly HistoryCounterName[]

/**
 * One spelling for all: `historyDeviceHitBlocks` and `history_gpu_hit_blocks` are the same counter, and what
 * was limited by capacity is one counter whatever the cause.
 */
const canonical = (name: string): string =>
  name
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replace(/(^|_)device(?=_|$)/, '$1gpu')
    .replace(/(^|_)host(?=_|$)/, '$1cpu')
    .replace(/^history_demotions$/, 'demotions')
    .replace(/^(history_capacity_limited)_by_.*$/, '$1_blocks')

/** What is not reported counts as 0; whether it has to be reported is asked with `missingCounters`. */
export function readHistoryCounters(counters: Counters): HistoryCounters {
  const byName = new Map<string, number>()
  for (const [name, value] of Object.entries(counters)) {
    const known = canonical(name)
    byName.set(known, (byName.get(known) ?? 0) + value)
  }
  return Object.fromEntries(
    historyNames.map((name) => [name, byName.get(historyCounterNames[name]) ?? 0]),
  ) as Record<HistoryCounterName, number>
}

export function missingCounters(
  counters: Counters,
  wanted: readonly HistoryCounterName[],
): string[] {
  const names = new Set(Object.keys(counters).map(canonical))
  return wanted.map((name) => historyCounterNames[name]).filter((name) => !names.has(name))
}

export function sumHistory(each: readonly HistoryCounters[]): HistoryCounters {
  return Object.fromEntries(
    historyNames.map((name) => [name, each.reduce((sum, counters) => sum + counters[name], 0)]),
  ) as Record<HistoryCounterName, number>
}
