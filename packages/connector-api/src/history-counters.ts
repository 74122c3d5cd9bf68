/**
 * What history counts, with the meaning of each in one sentence: the table of kv-history's README. Totals
 * since `open`; blocks unless the name says otherwise.
 */
export const historyCounterMeanings = {
  historySavedBlocks: 'published by the writer',
  historySaveChunks: 'chunks of which at least one block was published',
  historySkippedRequests:
    'requests that had candidates while the writer was busy with another; nothing else',
  historyFailures: 'requests whose writing ended in an error or did not end in time',
  historyAdmissionRejectedBlocks:
    'missing, at and after the first one that the policy did not admit: both tiers full, not seen before',
  historyAdmissionReusedBlocks: 'candidates that had been seen before',
  historyCapacityLimitedByRequest: 'missing, beyond what one request may have copied (64 MiB)',
  historyCapacityLimitedByTiers: 'missing, beyond what both tiers hold together',
  historyCapacityLimitedByReaders:
    'candidates left over because readers had pinned the room, and those after them',
  historyDeadlineDroppedBlocks: 'candidates left over at the 10 ms deadline',
  historyClosingDroppedBlocks: 'candidates left over at shutdown',
  historyHitBlocks: 'written into engine blocks by restores that succeeded, once a restore',
  historyDeviceHitBlocks: 'of those: read from the device tier',
  historyHostHitBlocks: 'of those: read from the host tier',
  historyLoadedRequests: 'restores that succeeded',
  historyFailedLoads: 'restores that failed',
  historyLeasesExpired: 'reservations that ended by time',
  historyDemotions: 'moved from the device to the host tier to make room',
  historyEvictedBlocks: 'forgotten to make room',
  historyDeviceWrittenBlocks: 'written to the device tier',
  historyHostWrittenBlocks: 'written to the host tier, demotions included',
  historyCopiesOverdue: 'copies that had not ended at their deadline',
} as const

export type HistoryCounterName = keyof typeof historyCounterMeanings
export const historyCounterNames = Object.keys(
  historyCounterMeanings,
) as readonly HistoryCounterName[]

export type HistoryCounters = Readonly<Record<HistoryCounterName, number>>
