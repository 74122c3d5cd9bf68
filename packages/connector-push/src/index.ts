/**
 * Push: the prefill engine WRITEs the prompt's KV blocks into the decode engine, which has registered them
 * while the prompt was being computed.
 *
 * @example
 * ```ts
 * import { loadConnector } from '@kvferry/connector-api'
 *
 * const factory = await loadConnector('push', (name) => import(name))
 * const scheduler = factory.createScheduler(schedulerComponents)
 * const worker = factory.createWorker(workerComponents, { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 })
 * ```
 *
 * @packageDocumentation
 */
export { push } from './factory.ts'
export { parsePushOptions, type PushOptions } from './options.ts'
export { pushLimits } from './limits.ts'
export { push as default } from './factory.ts'
