/**
 * The sizes of the reuse experiments. The published ones were 1,024 engine blocks of 16 tokens, documents of
 * about 4,000 tokens, and a device history of 1,365 blocks; here everything follows from the engine's block
 * count by the same ratios. Pure.
 */
import type { EngineShape } from '../compare/presets.ts'
import { blockSizeBytes } from '../experiments/budget.ts'
import { targetCount, type WorkingSet } from './plan.ts'

/** As published; only their ratios to the engine's blocks are used. */
const published = {
  engineBlocks: 1_024,
  historyBlocks: 1_365,
  /** Of the hot set: 2,562 of its 5,976 restored blocks came from the host tier. */
  hotHostBlocks: 439,
  documentTokens: 4_000,
  /** Of the capacity-tier run: 7,344 restored blocks over 120 returns. */
  tierDocumentBlocks: 61,
  tierBudgetBlocks: 5,
  blockTokens: 16,
} as const

/**
 * Of the device history. `published`: by the published ratio to the engine's blocks. `fitted`: with the hot set's
 * host history it holds that set and nothing else, so that a part of the set lies on the host without having been
 * displaced. For blocks so large that the writer, in its 10 ms, keeps too little of the one-shot documents to displace
 * anything.
 */
export type HistorySizing = 'published' | 'fitted'

export interface ReuseGeometry {
  /** Of each working set but the capacity tier's. */
  readonly documentTokens: number
  /** Blocks of the device history; the host history has as many as the engine, but for the hot set. */
  readonly historyBlocks: number
  /**
   * Blocks of the hot set's host history. As published it had room for the whole set, and both tiers were
   * hit because the writer's 10 ms kept little of each one-shot document. A machine that copies all of it in
   * time displaces the whole set to the host, and the device tier is never hit. So the host has room for the
   * share of the set that was displaced as published, and both tiers are hit however fast the writer is.
   */
  readonly hotHostBlocks: number
  readonly historyBytes: number
  readonly documentBytes: number
  /** Engine blocks of the control with as much device memory for KV as engine and device history together. */
  readonly matchedBlocks: number
  /** Of the capacity-tier run. */
  readonly tierDocumentTokens: number
  readonly tierBudgetBytes: number
}

export function reuseGeometry(
  shape: EngineShape,
  sizing: HistorySizing = 'published',
): ReuseGeometry {
  const { blockCount, blockTokens } = shape
  const ratio = blockCount / published.engineBlocks
  const sizeBytes = blockSizeBytes(shape)
  const documentBlocks = (published.documentTokens / published.blockTokens) * ratio
  const hotHostBlocks = Math.floor(published.hotHostBlocks * ratio)
  const historyBlocks =
    sizing === 'fitted'
      ? targetCount * Math.ceil(documentBlocks) - hotHostBlocks
      : Math.floor(published.historyBlocks * ratio)
  return {
    documentTokens: Math.floor(documentBlocks * blockTokens),
    historyBlocks,
    historyBytes: historyBlocks * sizeBytes,
    hotHostBlocks,
    documentBytes: documentBlocks * sizeBytes,
    matchedBlocks: blockCount + historyBlocks,
    tierDocumentTokens: Math.floor(published.tierDocumentBlocks * ratio * blockTokens),
    tierBudgetBytes: published.tierBudgetBlocks * sizeBytes,
  }
}

/** Tokens of a document for each block of the engine. */
function growth(workingSet: WorkingSet, blockTokens: number): number {
  const documentBlocks =
    workingSet === 'capacity-tier'
      ? published.tierDocumentBlocks
      : published.documentTokens / published.blockTokens
  return (documentBlocks * blockTokens) / published.engineBlocks
}

export const documentTokensOf = (
  { documentTokens, tierDocumentTokens }: ReuseGeometry,
  workingSet: WorkingSet,
): number => (workingSet === 'capacity-tier' ? tierDocumentTokens : documentTokens)

/** The most blocks with which a document and its output are no longer than an engine's longest sequence. */
export function blockCountMax(
  { maxModelLen, blockTokens }: EngineShape,
  workingSet: WorkingSet,
  outputTokens: number,
): number {
  // Documents have whole tokens: they are too long from one token more on.
  const tooLong = maxModelLen - outputTokens + 1
  return Math.ceil(tooLong / growth(workingSet, blockTokens)) - 1
}
