/**
 * Xavier: the decode engine claims a ticket for the KV of one request, and the prefill engine writes it into
 * the blocks that the decode engine names.
 *
 * @example
 * ```ts
 * import { loadConnector } from '@kvferry/connector-api'
 *
 * const factory = await loadConnector('xavier', (name) => import(name))
 * const scheduler = factory.createScheduler(schedulerComponents)
 * const worker = factory.createWorker(workerComponents, { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 })
 * ```
 *
 * @packageDocumentation
 */
export { xavier } from './factory.ts'
export { parseXavierOptions, type XavierOptions } from './options.ts'
export { xavierLimits } from './limits.ts'
export { xavier as default } from './factory.ts'
