/**
 * A small continuous-batching engine with real KV bytes and modelled compute time, behind OpenAI's
 * completions API.
 *
 * @example
 * ```ts
 * import { startEngine } from '@kvferry/reference-engine'
 *
 * const engine = await startEngine({ model: 'tiny', port: 8000 }) // no connector: one engine does all
 * await engine.close()
 * ```
 *
 * @packageDocumentation
 */
export type { BlockCounts } from './core/block-pool.ts'
export type { DebugView, EngineStats, PeerView } from './core/core-messages.ts'
export type { Distribution } from './core/distribution.ts'
export type { TransferFabric } from './core/memory-ports.ts'
export type { RequestStateKind } from './core/request-state.ts'
export type { EngineTimings, LoadTimings } from './core/timings.ts'
export type { EngineSettingOptions } from './engine-options.ts'
export { engineLimits } from './limits.ts'
export {
  modelNames,
  modelPresets,
  resolveModel,
  type ModelName,
  type ModelPreset,
  type ModelShape,
} from './model-presets.ts'
export { startEngine, type EngineOptions, type RunningEngine } from './start-engine.ts'
export { modelStepMs, timePresets, type TimePreset, type TimePresetName } from './time-model.ts'
