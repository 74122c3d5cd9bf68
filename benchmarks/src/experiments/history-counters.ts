/**
 * What a connector with tickets and a history counts, by meaning, under its own names and under those of the
 * published design, so that a connector of somebody else's can be judged too. Pure.
 */
import type { Counters } from './experiment-trial.ts'

/** Several names of one meaning add up: ours tells causes apart that are one in the published design. */
export const historyCounterSources = {
  registered: ['ticketsRegistered', 'direct_registered'],
  finished: ['ticketsFinished', 'direct_finished'],
  expired: ['leasesExpired', 'direct_expired'],
  networkHostBatches: ['cpu_batches'],
  loads: ['historyLoadedRequests', 'history_loaded_requests'],
  hitBlocks: ['historyHitBlocks', 'history_hit_blocks'],
  deviceHitBlocks: ['historyDeviceHitBlocks', 'history_gpu_hit_blocks'],
  hostHitBlocks: ['historyHostHitBlocks', 'history_cpu_hit_blocks'],
  savedBlocks: ['historySavedBlocks', 'history_saved_blocks'],
  demotions: ['historyDemotions', 'demotions'],
  failures: ['historyFailures', 'historyFailedLoads', 'history_failures'],
  rejectedBlocks: ['historyAdmissionRejectedBlocks', 'history_admission_rejected_blocks'],
  capacityLimitedBlocks: [
    'historyCapacityLimitedByRequest',
    'historyCapacityLimitedByTiers',
    'historyCapacityLimitedByReaders',
    'history_capacity_limited_blocks',
  ],
  deadlineDroppedBlocks: ['historyDeadlineDroppedBlocks', 'history_deadline_dropped_blocks'],
  skippedRequests: ['historySkippedRequests', 'history_skipped_requests'],
} as const

export type HistoryCounterName = keyof typeof historyCounterSources
export type HistoryCounters = Readonly<Record<HistoryCounterName, number>>

export const historyNames = Object.keys(historyCounterSources) as readonly HistoryCounterName[]

/** What is not reported counts as 0; whether it has to be reported is asked with `missingCounters`. */
export function readHistoryCounters(counters: Counters): HistoryCounters {
  return Object.fromEntries(
    historyNames.map((name) => [
      name,
      historyCounterSources[name].reduce((sum, source) => sum + (counters[source] ?? 0), 0),
    ]),
  ) as Record<HistoryCounterName, number>
}

/** By our name, of those that are there under none. */
export function missingCounters(
  counters: Counters,
  wanted: readonly HistoryCounterName[],
): string[] {
  return wanted
    .map((name): readonly string[] => historyCounterSources[name])
    .filter((sources) => sources.every((source) => !Object.hasOwn(counters, source)))
    .map(([source]) => source as string)
}

export function sumHistory(each: readonly HistoryCounters[]): HistoryCounters {
  return Object.fromEntries(
    historyNames.map((name) => [name, each.reduce((sum, counters) => sum + counters[name], 0)]),
  ) as Record<HistoryCounterName, number>
}
