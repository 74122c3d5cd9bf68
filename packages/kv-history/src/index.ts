/**
 * Tiered KV history: an implementation of connector-api's `HistoryProvider`. Knows no connector and no
 * engine.
 *
 * @packageDocumentation
 */
export type { BlockCopies, BlockCopy, BlockSpace } from './copies/block-copies.ts'
export { createKernelCopies } from './copies/kernel-copies.ts'
export { tieredHistory, type TieredHistoryComponents } from './history-provider.ts'
export { historySizes, type HistorySizes } from './history-sizes.ts'
export { historyLimits, type HistoryBounds } from './limits.ts'
export { TieredHistory, type TieredHistoryOptions } from './tiered-history.ts'
export { historyPolicies, type HistoryPolicy } from './writing/history-policy.ts'
