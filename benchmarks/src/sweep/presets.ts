/**
 * What `sweep --preset` stands for. `push-text` is the grid of the published comparison of vLLM's push and
 * pull connectors; `vllm-load` what real vLLM was measured with on two H200;
 * `quick` shows the machinery in about a minute.
 */
import type { EngineShape } from '../compare/presets.ts'
import type { Grid } from './grid.ts'

export interface SweepPreset {
  readonly name: string
  readonly grid: Grid
  readonly iterations: number
  /** Measured requests of one run of one point; at rates where these would take longer than `windowS`, fewer. */
  readonly requestCount: number
  /** Seconds of arrivals; null: however long. */
  readonly windowS: number | null
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
  windowS: null,
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

/** Geometry and schedule of the measurement; its arrivals lasted 13 s a point. */
const vllmLoad: SweepPreset = {
  name: 'vllm-load',
  grid: { qps: [2, 4, 8], inputTokens: [8_000], outputTokens: [64] },
  iterations: 1,
  requestCount: 104,
  windowS: 13,
  warmUpCount: 6,
  engine: {
    model: 'qwen2.5-0.5b-h200',
    kvScale: 1,
    timeScale: 1,
    // K and V side by side: descriptors of vLLM's size, and as many as with its blocks of 16 and K and V apart.
    blockTokens: 8,
    blockCount: 16_384,
    blockOrder: 'scattered',
    maxNumSeqs: 8,
    maxNumBatchedTokens: 8_704,
    maxModelLen: 8_192,
    // As vLLM of that version: posting is a part of the step.
    hooks: 'additive',
  },
}

const quick: SweepPreset = {
  name: 'quick',
  grid: { qps: [4, 16], inputTokens: [128, 512], outputTokens: [16] },
  iterations: 1,
  requestCount: 24,
  windowS: null,
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

/** As many as arrive in the window, on average. */
export function requestsAt(
  { requestCount, windowS }: Pick<SweepPreset, 'requestCount' | 'windowS'>,
  { qps }: { readonly qps: number },
): number {
  return windowS === null ? requestCount : Math.min(requestCount, Math.ceil(qps * windowS))
}

export const sweepPresets = { quick, 'push-text': pushText, 'vllm-load': vllmLoad } as const
export type SweepPresetName = keyof typeof sweepPresets
