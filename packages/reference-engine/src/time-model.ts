/**
 * How long the modelled device computes one step. Pure. The numbers stand for a class of hardware, not
 * for a measurement of ours; the README has the table. A step reads all weights once (`stepBaseMs`),
 * which hides behind the prefill's arithmetic or shows when there is none; each sequence adds its share.
 */
export interface TimePreset {
  /** Reading the weights: the floor of every step. */
  readonly stepBaseMs: number
  /** One decoding sequence in a step, whatever its length. */
  readonly perSequenceMs: number
  /** One earlier token of a decoding sequence: its KV is read in each step. */
  readonly contextTokenMs: number
  /** One prefill token: linear layers. */
  readonly prefillTokenMs: number
  /** One pair (token, earlier token): attention. A prompt of n tokens costs this times n²/2. */
  readonly prefillPairMs: number
}

export const timePresets = {
  /** No real model: short steps, so that a demo takes seconds, yet longer than the work behind them. */
  tiny: {
    stepBaseMs: 8,
    perSequenceMs: 0.05,
    contextTokenMs: 0,
    prefillTokenMs: 0.04,
    prefillPairMs: 0.000_004,
  },
  /** 0.5 B parameters on a data-centre GPU. */
  'qwen2.5-0.5b': {
    stepBaseMs: 2.5,
    perSequenceMs: 0.02,
    contextTokenMs: 0.000_005,
    prefillTokenMs: 0.005,
    prefillPairMs: 0.000_000_3,
  },
  /** The layout of `qwen2.5-0.5b` in vLLM on one H200, decoding by CUDA graphs: measured. */
  'qwen2.5-0.5b-h200': {
    stepBaseMs: 2,
    perSequenceMs: 0.02,
    contextTokenMs: 0.000_003_4,
    prefillTokenMs: 0.004_1,
    prefillPairMs: 0,
  },
  /** 8 B parameters in bf16 on one H100-class GPU. */
  'llama-3.1-8b': {
    stepBaseMs: 7,
    perSequenceMs: 0.05,
    contextTokenMs: 0.000_052,
    prefillTokenMs: 0.045,
    prefillPairMs: 0.000_001_3,
  },
  /** 32 B parameters in bf16, tensor-parallel over 8 H200-class GPUs; every prompt token is computed. */
  'qwen3-32b': {
    stepBaseMs: 5.55,
    perSequenceMs: 0.02,
    contextTokenMs: 0.000_009,
    prefillTokenMs: 0.017_5,
    prefillPairMs: 0.000_000_59,
  },
  /** The same, where P finds most of each prompt in its own prefix cache, as in the published comparison. */
  'qwen3-32b-warm': {
    stepBaseMs: 5.55,
    perSequenceMs: 0.02,
    contextTokenMs: 0.000_009,
    prefillTokenMs: 0.006_8,
    prefillPairMs: 0,
  },
} as const satisfies Record<string, TimePreset>

export type TimePresetName = keyof typeof timePresets

/** Tokens `[start, end)` of one sequence, computed in one step. */
export interface TokenRange {
  readonly start: number
  readonly end: number
}

/** Modelled milliseconds of one step; 0 for a step without tokens. */
export function modelStepMs(
  preset: TimePreset,
  chunks: readonly TokenRange[],
  timeScale: number,
): number {
  if (chunks.length === 0) return 0
  let prefillMs = 0
  let contextMs = 0
  for (const { start, end } of chunks) {
    const tokenCount = end - start
    // One token is a decode step whatever its position: the recomputed last token of a loaded prompt too.
    if (tokenCount === 1) {
      contextMs += start * preset.contextTokenMs
      continue
    }
    const pairCount = (end * end - start * start) / 2
    prefillMs += tokenCount * preset.prefillTokenMs + pairCount * preset.prefillPairMs
  }
  const sequencesMs = chunks.length * preset.perSequenceMs
  return (Math.max(preset.stepBaseMs, prefillMs) + sequencesMs + contextMs) * timeScale
}
