/**
 * What `sweep --preset` stands for. `push-text` is the grid of the published comparison of vLLM's push and
 * pull connectors; `quick` shows the machinery in about a minute.
 */
import type { EngineShape } from '../compare/presets.ts'
import type { Grid } from './grid.ts'

export interface SweepPreset {
  readonly name: string
  readonly grid: Grid
  readonly iterations: number
  /** Measured requests of one run of one point. */
  readonly requestCount: number
  readonly warmUpCount: number
  readonly engine: EngineShape
}

const pushText: SweepPreset = {
  name: 'push-text',
  grid: {
    qps: [1, 2, 4, 8],
    inputTokens: [1_024, 2_048, 4_096, 8_192, 16_384],
    outputTokens: [128],
  },
  iterations: 1,
  requestCount: 100,
  warmUpCount: 4,
  engine: {
    model: 'qwen3-32b-warm',
    // Head size 1: 2 KiB a token, and every descriptor of the real layout.
    kvScale: 128,
    timeScale: 1,
    blockTokens: 16,
    // 15 of the longest sequences: the 8 that run, and those whose KV is still on its way.
    blockCount: 16_384,
    maxNumSeqs: 8,
    // vLLM's default for a server on this class of GPU.
    maxNumBatchedTokens: 8_192,
    maxModelLen: 32_768,
    hooks: 'after-launch',
  },
}

const quick: SweepPreset = {
  name: 'quick',
  grid: { qps: [4, 16], inputTokens: [128, 512], outputTokens: [16] },
  iterations: 1,
  requestCount: 24,
  warmUpCount: 2,
  engine: {
    model: 'tiny',
    kvScale: 1,
    timeScale: 1,
    blockTokens: 16,
    blockCount: 1_024,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 2_048,
    maxModelLen: 1_024,
    hooks: 'after-launch',
  },
}

export const sweepPresets = { quick, 'push-text': pushText } as const
export type SweepPresetName = keyof typeof sweepPresets
