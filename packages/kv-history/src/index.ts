/**
 * Tiered KV history: an implementation of connector-api's `HistoryProvider`. Knows no connector and no
 * engine.
 *
 * @packageDocumentation
 */
export { historySizes, type HistorySizes } from './history-sizes.ts'
export { historyLimits } from './limits.ts'
