/** What rounds over histories of several sizes say: microseconds a block, and how they grow. Pure. */
import { createDistribution } from '../lib/distribution.ts'
import { atMost, comparePairs, onlyReported, spreadOf } from './pair-statistics.ts'
import type { HistoryCase, HistoryGrowthCase } from './result.ts'
import { micro } from './settings.ts'

/** Microseconds a block in one round, by size, and of the smallest once more. */
export interface HistoryRound {
  readonly us: readonly number[]
  readonly again: number
}

export interface HistorySize {
  readonly entryCount: number
  readonly bytesPerEntry: number
}

const label = ({ entryCount }: HistorySize): string => `${entryCount.toLocaleString('en')} entries`

/** The bars: the largest by itself, and against the smallest. */
export function historyCases(
  rounds: readonly HistoryRound[],
  sizes: readonly HistorySize[],
  blocksPerPrompt: number,
): { readonly cases: readonly (HistoryCase | HistoryGrowthCase)[]; readonly spread: number } {
  const { usPerBlockMax, growthMax } = micro.history.bars
  const last = sizes.length - 1
  const cases = sizes.map((size, index): HistoryCase => {
    const usPerBlock = createDistribution(rounds.map(({ us }) => us[index]!))
    const value = usPerBlock.p50 ?? Infinity
    const rule = `median time a block at most ${usPerBlockMax} µs`
    const bar = index === last ? atMost(rule, value, usPerBlockMax) : onlyReported(rule, value)
    const { entryCount, bytesPerEntry } = size
    return {
      ...{ kind: 'history-lookup', label: label(size), entries: entryCount, blocksPerPrompt },
      ...{ rounds: rounds.length, usPerBlock, bytesPerEntry, bar },
    }
  })
  // As a share of throughput: the larger history is b.
  const growth = createDistribution(rounds.map(({ us }) => us[last]! / us[0]!))
  const rule = `median growth from the smallest to the largest at most ${growthMax}`
  const same = comparePairs(rounds.map(({ us, again }) => ({ aNs: us[0]!, bNs: again })))
  const growthCase: HistoryGrowthCase = {
    kind: 'history-growth',
    label: `${label(sizes[last]!)} against ${label(sizes[0]!)}`,
    ratio: growth,
    bar: atMost(rule, growth.p50 ?? Infinity, growthMax),
  }
  return { cases: [...cases, growthCase], spread: spreadOf(same) }
}
