/**
 * OpenAI-compatible router for disaggregated prefill and decode engines.
 *
 * @example
 * const router = await startRouter({
 *   prefill: ['http://127.0.0.1:8001'],
 *   decode: ['http://127.0.0.1:8002'],
 *   port: 0,
 * })
 * console.log(router.url)
 * await router.close()
 *
 * @packageDocumentation
 */
export { defaultDeadlines, routerLimits, type Deadlines, type PollIntervals } from './limits.ts'
export type { RouterTimings } from './dispatch.ts'
export type { PrefillConfig, RouterConfig } from './options.ts'
export { startRouter, type RouterPorts, type RunningRouter } from './start-router.ts'
