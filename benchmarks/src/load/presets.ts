/**
 * What `load --preset` stands for. `full` is the published 652 requests, three times; `quick` has shorter closed
 * phases. The model is the published one, since what staging costs is a matter of bytes. A quarter of its bytes, and a
 * device that is sixteen times slower than the preset, are what two cores carry inside the overrun guard;
 * `--kv-scale 1 --time-scale 1` undoes it.
 */
import type { EngineShape } from '../compare/presets.ts'
import type { LoadPlanOptions } from './plan.ts'

export interface LoadPreset {
  readonly name: 'quick' | 'full'
  readonly engine: EngineShape
  /** Moments of the cold arrivals are for a time scale of 1. */
  readonly plan: Omit<LoadPlanOptions, 'random'>
  /** Each in fresh processes. */
  readonly trials: number
  /** A point outside the overrun guard, or a missed bar, fails the command instead of warning. */
  readonly requiresValid: boolean
}

const engine: EngineShape = {
  model: 'qwen2.5-0.5b',
  kvScale: 4,
  timeScale: 16,
  blockTokens: 16,
  blockCount: 2_048,
  maxNumSeqs: 64,
  maxNumBatchedTokens: 2_048,
  maxModelLen: 1_024,
  hooks: 'after-launch',
}

const quick: LoadPreset = {
  name: 'quick',
  engine,
  plan: {
    prefixCount: 12,
    prefixTokens: 192,
    ownTokens: 64,
    requestCount: 64,
    outputTokens: 16,
    backgroundCount: 8,
    // About 0.7 s of decoding at time scale 1; the last cold arrival comes after 0.3 s of it.
    backgroundOutputTokens: 256,
    coldCount: 32,
    coldTokens: 768,
    coldGapMs: 10,
  },
  trials: 1,
  requiresValid: false,
}

const full: LoadPreset = {
  ...quick,
  name: 'full',
  plan: { ...quick.plan, requestCount: 300 },
  trials: 3,
  requiresValid: true,
}

export const loadPresets = { quick, full } as const
export type LoadPresetName = keyof typeof loadPresets
