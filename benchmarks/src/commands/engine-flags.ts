/** Flags of the engines that a command starts, judged as an engine would, before any is started. Pure. */
import { ConnectorError } from '@kvferry/connector-api'
import { engineLimits, resolveModel } from '@kvferry/reference-engine'
import type { EngineShape } from '../compare/presets.ts'
import { UsageError } from '../usage-error.ts'
import type { Range } from './flag-values.ts'

/** By flag. */
export const engineRanges = {
  // No head is larger; whether it can be divided depends on the model.
  'kv-scale': { min: 1, max: 1_024 },
  'time-scale': { min: 0.01, max: 1_000 },
  'block-size': { min: 1, max: engineLimits.blockTokensMax },
  'num-blocks': { min: 1, max: engineLimits.blockCountMax },
  'max-num-batched-tokens': { min: 1, max: engineLimits.maxModelLenMax },
  'max-num-seqs': { min: 1, max: engineLimits.maxNumSeqsMax },
  'max-model-len': { min: 2, max: engineLimits.maxModelLenMax },
} as const satisfies Readonly<Record<string, Range>>

/** @throws UsageError for a model that doesn't exist, or a scale that its heads can't be divided by. */
export function assertModel({ model, kvScale }: Pick<EngineShape, 'model' | 'kvScale'>): void {
  try {
    resolveModel(model, kvScale)
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    throw new UsageError(`--model, --kv-scale: ${error.message}`)
  }
}

/** Block counts that hold the longest sequence of an engine whose length no flag changes. */
export function blockCountsFor({ maxModelLen, blockTokens }: EngineShape): Required<Range> {
  return {
    min: Math.ceil(maxModelLen / blockTokens),
    max: engineLimits.blockCountMax,
    why: `blocks of ${blockTokens} tokens hold the longest sequence, ${maxModelLen}`,
  }
}
