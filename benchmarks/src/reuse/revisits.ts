/**
 * What one request of a reuse experiment shows: the client's time to first token, P's call, and what P
 * restored instead of computing. Pure.
 */
import { modelPresets, modelStepMs, timePresets } from '@kvferry/reference-engine'
import type { ModelName } from '@kvferry/reference-engine'
import type { RequestRecord } from '../compare/load-client.ts'
import type { EngineShape } from '../compare/presets.ts'
import { metricsOf } from '../compare/request-metrics.ts'

export interface Observation {
  readonly ttftMs: number
  /** Null when the router didn't say. */
  readonly prefillCallMs: number | null
  readonly restoreMs: number | null
  readonly restoredTokens: number
  readonly modelledPrefillMs: number
}

/** The engine's own arithmetic: prompt tokens from `start` on, in chunks of a step's budget. */
export function modelledPrefillMs(shape: EngineShape, start: number, tokens: number): number {
  const preset = timePresets[modelPresets[shape.model as ModelName].timePreset]
  let totalMs = 0
  for (let from = start; from < tokens; from += shape.maxNumBatchedTokens) {
    const end = Math.min(tokens, from + shape.maxNumBatchedTokens)
    totalMs += modelStepMs(preset, [{ start: from, end }], shape.timeScale)
  }
  return totalMs
}

/** Null for a request that failed. */
export function observe(record: RequestRecord, shape: EngineShape): Observation | null {
  const metrics = metricsOf(record)
  if (!metrics || metrics.ttftMs === null) return null
  const { router, prefill } = record.routed ?? { router: null, prefill: null }
  const { length } = record.planned.prompt
  const load = prefill?.load?.outcome === 'loaded' ? prefill.load : null
  // P always computes the last token itself.
  const restoredTokens = load
    ? Math.min(length - 1, (prefill?.verification.blocksLoaded ?? 0) * shape.blockTokens)
    : 0
  const cachedTokens = prefill?.cachedTokens ?? 0
  const answeredAtMs = router?.prefillAnsweredAtMs ?? null
  const sentAtMs = router?.prefillSentAtMs ?? null
  const readyAtMs = prefill?.loadReadyAtMs ?? null
  return {
    ttftMs: metrics.ttftMs,
    prefillCallMs: answeredAtMs === null || sentAtMs === null ? null : answeredAtMs - sentAtMs,
    restoreMs: load && readyAtMs !== null ? readyAtMs - load.allocAtMs : null,
    restoredTokens,
    modelledPrefillMs: modelledPrefillMs(
      shape,
      Math.min(length - 1, cachedTokens + restoredTokens),
      length,
    ),
  }
}
