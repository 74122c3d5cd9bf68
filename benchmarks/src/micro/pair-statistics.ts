/**
 * What many interleaved pairs say: the distribution of the ratio within each pair (so that drift of the
 * machine cancels out), a distribution-free confidence interval of its median, and the verdict on a bar.
 * Pure.
 */
import { createDistribution, type Distribution } from '../lib/distribution.ts'

/** Nanoseconds for the same work on both sides, measured next to each other. */
export interface Pair {
  readonly aNs: number
  readonly bNs: number
}

export interface PairedRatio {
  /** Throughput of b as a share of a's: above 1, b is faster. */
  readonly ratio: Distribution
  /** 95 % confidence interval of the median ratio. */
  readonly medianInterval: readonly [low: number, high: number]
}

/**
 * Order statistics around the median that enclose the true one with 95 % probability, whatever the
 * distribution (normal approximation of the binomial ranks).
 */
export function medianInterval(values: readonly number[]): readonly [low: number, high: number] {
  const sorted = [...values].sort((x, y) => x - y)
  const count = sorted.length
  if (count === 0) throw new RangeError('no observations')
  const half = (1.96 * Math.sqrt(count)) / 2
  const low = Math.max(0, Math.floor(count / 2 - half) - 1)
  const high = Math.min(count - 1, Math.ceil(count / 2 + half))
  return [sorted[low] as number, sorted[high] as number]
}

export function comparePairs(pairs: readonly Pair[]): PairedRatio {
  const ratios = pairs.map(({ aNs, bNs }) => aNs / bNs)
  return { ratio: createDistribution(ratios), medianInterval: medianInterval(ratios) }
}

/** A-A: the furthest that the median of equals may lie from 1, by the same interval. */
export function spreadOf({ medianInterval: [low, high] }: PairedRatio): number {
  return Math.max(Math.abs(1 - low), Math.abs(high - 1))
}

export type BarVerdict = 'pass' | 'fail' | 'too-noisy' | 'reported'

export interface Bar {
  /** The rule in words. */
  readonly rule: string
  /** null where a value is only reported. */
  readonly limit: number | null
  readonly value: number
  readonly verdict: BarVerdict
}

/** The median ratio must reach `ratioMin` less the spread; a spread over `spreadMax` decides nothing. */
export function throughputBar(
  ratio: PairedRatio,
  spread: number,
  bar: { readonly ratioMin: number; readonly spreadMax: number },
): Bar {
  const value = ratio.ratio.p50 ?? 0
  const limit = Number((bar.ratioMin - spread).toFixed(6))
  const rule = `median of paired throughput ratios at least ${bar.ratioMin} less the A-A spread`
  if (spread > bar.spreadMax) return { rule, limit, value, verdict: 'too-noisy' }
  return { rule, limit, value, verdict: value >= limit ? 'pass' : 'fail' }
}

export function atMost(rule: string, value: number, limit: number): Bar {
  return { rule, limit, value, verdict: value <= limit ? 'pass' : 'fail' }
}

export function onlyReported(rule: string, value: number): Bar {
  return { rule, limit: null, value, verdict: 'reported' }
}

/** Runs `count` pairs after `warmUpCount`, swapping who goes first, one side at a time. */
export async function interleave(
  a: () => Promise<number>,
  b: () => Promise<number>,
  options: {
    readonly count: number
    readonly warmUpCount: number
    readonly onPair: () => void
  },
): Promise<Pair[]> {
  const pairs: Pair[] = []
  for (let i = -options.warmUpCount; i < options.count; i++) {
    let aNs: number
    let bNs: number
    if (i % 2 === 0) {
      aNs = await a()
      bNs = await b()
    } else {
      bNs = await b()
      aNs = await a()
    }
    if (i < 0) continue
    pairs.push({ aNs, bNs })
    options.onPair()
  }
  return pairs
}
