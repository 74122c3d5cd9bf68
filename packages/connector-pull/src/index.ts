/**
 * Pull: the decode engine READs the prompt's KV blocks from the prefill engine, after the router handed it
 * the prefill engine's block ids.
 *
 * @example
 * ```ts
 * import { loadConnector } from '@kvferry/connector-api'
 *
 * const factory = await loadConnector('pull', (name) => import(name))
 * const scheduler = factory.createScheduler(schedulerComponents)
 * const worker = factory.createWorker(workerComponents, { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 })
 * ```
 *
 * @packageDocumentation
 */
export { pull } from './factory.ts'
export { parsePullOptions, type PullOptions } from './options.ts'
export { pullLimits } from './limits.ts'
export { pull as default } from './factory.ts'
