/**
 * What `reuse --preset` stands for. `quick` shows effect and control on two cores; `full` has the published
 * token counts and at least 200 revisits over three trials; `8b` has blocks of 2 MiB, as a model of eight
 * billion parameters has them, and is scaled in time so that two cores carry its bytes.
 *
 * The hot set asks whether what was kept comes back, so its blocks may be small. The changing set asks what
 * the writer has no time to keep: that is about bytes. Published were documents of 46.9 MiB, four times what the
 * writer replaced within its 10 ms; a document of 2 MiB is one chunk of the writer's, and kept whole however
 * full the tiers are. Its steps are longer, because each has to read all of a document's bytes.
 */
import type { EngineShape } from '../compare/presets.ts'
import type { HistorySizing } from './geometry.ts'
import type { WorkingSet } from './plan.ts'

export interface ReusePreset {
  readonly name: 'quick' | 'full' | '8b'
  readonly engine: EngineShape
  /** Of the changing working set. */
  readonly changing: EngineShape
  readonly outputTokens: number
  readonly cycles: Readonly<Record<WorkingSet, number>>
  /** Of the hot set; others have the published ratios. */
  readonly hotHistory: HistorySizing
  /** Cycles of the hot set that aren't measured, before those that are; by `settlingCyclesOf`. */
  readonly settlingCycles: number
  /** Each in fresh processes. */
  readonly trials: number
  /** A point outside the overrun guard, or a missed bar, fails the command instead of warning. */
  readonly requiresValid: boolean
}

const engine: EngineShape = {
  model: 'tiny',
  kvScale: 1,
  timeScale: 1,
  blockTokens: 16,
  blockCount: 512,
  maxNumSeqs: 32,
  maxNumBatchedTokens: 2_048,
  maxModelLen: 4_096,
  hooks: 'after-launch',
}

const quick: ReusePreset = {
  name: 'quick',
  engine,
  // Documents of 23.4 MiB: twice what the published writer replaced. As fast as `tiny`, but for the scale.
  changing: { ...engine, model: 'llama-3.1-8b', kvScale: 8, timeScale: 4, blockCount: 384 },
  outputTokens: 8,
  cycles: { hot: 6, changing: 3, 'capacity-tier': 10 },
  hotHistory: 'published',
  settlingCycles: 0,
  trials: 1,
  requiresValid: false,
}

const full: ReusePreset = {
  name: 'full',
  engine: { ...engine, blockCount: 1_024 },
  // The published model, block for block.
  changing: { ...engine, blockCount: 1_024, model: 'qwen2.5-0.5b', timeScale: 16 },
  outputTokens: 16,
  // 17 cycles of 4 revisits in 3 trials: 204.
  cycles: { hot: 17, changing: 3, 'capacity-tier': 10 },
  hotHistory: 'published',
  settlingCycles: 0,
  trials: 3,
  requiresValid: true,
}

/** Documents of 62 MiB. */
const largeBlocks: EngineShape = {
  ...engine,
  ...{ model: 'llama-3.1-8b', timeScale: 16, blockCount: 128, maxModelLen: 1_024 },
}
const eightBillion: ReusePreset = {
  ...quick,
  name: '8b',
  ...{ engine: largeBlocks, changing: largeBlocks },
  // A token takes 0.1 s at this scale.
  outputTokens: 2,
  cycles: { hot: 3, changing: 3, 'capacity-tier': 3 },
  hotHistory: 'fitted',
  // In its 10 ms the writer gets a part of 62 MiB done, and goes on from there when the document returns.
  settlingCycles: 9,
}

export const reusePresets = { quick, full, '8b': eightBillion } as const
export type ReusePresetName = keyof typeof reusePresets

/** Of documents that several callers end at once, the writer takes one, and the others when they return. */
const crowdedSettlingCycles = 2

/** How long the hot set needs until the writer, in its 10 ms a request, has taken it in; of others 0. */
export const settlingCyclesOf = (
  preset: ReusePreset,
  workingSet: WorkingSet,
  concurrency: number,
): number =>
  workingSet === 'hot'
    ? Math.max(preset.settlingCycles, concurrency > 1 ? crowdedSettlingCycles : 0)
    : 0

export const reuseEngine = (preset: ReusePreset, workingSet: WorkingSet): EngineShape =>
  workingSet === 'changing' ? preset.changing : preset.engine

export const historySizingOf = (preset: ReusePreset, workingSet: WorkingSet): HistorySizing =>
  workingSet === 'hot' ? preset.hotHistory : 'published'
