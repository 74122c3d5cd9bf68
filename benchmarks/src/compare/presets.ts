/**
 * What `--preset` stands for: the load, the modelled engine, and how often it is repeated. Sizes are
 * chosen so that two cores carry them inside the overrun guard; larger machines change nothing in the
 * meaning, because compute time is modelled.
 */
import type { Hooks } from './configuration.ts'

export interface EngineShape {
  readonly model: string
  /** Divides the head size, and nothing else. */
  readonly kvScale: number
  /** Factor on every modelled time. */
  readonly timeScale: number
  readonly blockTokens: number
  readonly blockCount: number
  /** Absent: as they lie. `scattered`: nothing merges, as after hours of service. */
  readonly blockOrder?: 'scattered'
  readonly maxNumSeqs: number
  readonly maxNumBatchedTokens: number
  readonly maxModelLen: number
  readonly hooks: Hooks
}

export interface Preset {
  readonly name: 'quick' | 'full'
  /** Measured requests of one trial, warm-up and burst apart. */
  readonly requestCount: number
  readonly warmUpCount: number
  readonly burstCount: number
  readonly qps: number
  readonly concurrencyMax: number
  readonly promptTokensMax: number
  /** Of every warm-up and measured prompt; null: lengths of every class. The burst has those in any case. */
  readonly inputTokens: number | null
  readonly outputTokens: number
  /** Each in fresh processes. */
  readonly trials: number
  readonly engine: EngineShape
  /** An invalid point fails the command instead of warning. */
  readonly requiresValid: boolean
}

const engine: EngineShape = {
  model: 'tiny',
  kvScale: 1,
  timeScale: 1,
  blockTokens: 16,
  blockCount: 1_024,
  maxNumSeqs: 32,
  maxNumBatchedTokens: 2_048,
  maxModelLen: 512,
  hooks: 'after-launch',
}

const quick: Preset = {
  name: 'quick',
  requestCount: 100,
  warmUpCount: 8,
  burstCount: 32,
  qps: 10,
  concurrencyMax: 32,
  promptTokensMax: 256,
  inputTokens: null,
  outputTokens: 16,
  trials: 1,
  engine,
  requiresValid: false,
}

const full: Preset = {
  ...quick,
  name: 'full',
  requestCount: 400,
  warmUpCount: 16,
  trials: 3,
  requiresValid: true,
}

export const presets = { quick, full } as const
export type PresetName = keyof typeof presets
