/**
 * What rounds of windows say: the difference of medians within each round (so that drift of the machine
 * cancels out), the same for direct against direct, and the verdict. Pure.
 */
import { createDistribution, nearestRank, type Distribution } from '../lib/distribution.ts'
import { medianInterval, onlyReported, type Bar } from './pair-statistics.ts'
import type { RouterCase } from './result.ts'
import type { Window } from './router-load.ts'

/** Windows measured next to each other, in an order that changes from round to round. */
export interface Round {
  readonly direct: Window
  readonly directAgain: Window
  readonly routed: Window
}

const median = (values: readonly number[]): number =>
  nearestRank(
    [...values].sort((a, b) => a - b),
    50,
  )

interface Difference {
  readonly us: Distribution
  readonly medianInterval: readonly [low: number, high: number]
}

function difference(
  rounds: readonly Round[],
  from: keyof Round,
  to: keyof Round,
  of: keyof Window,
): Difference {
  const values = rounds.map((round) => median(round[to][of]) - median(round[from][of]))
  return { us: createDistribution(values), medianInterval: medianInterval(values) }
}

/** A-A: the furthest that the median difference of equals may lie from 0. */
const spreadOf = ({ medianInterval: [low, high] }: Difference): number =>
  Math.max(Math.abs(low), Math.abs(high))

/** The median added time must not exceed `p50UsMax`; a spread over `spreadUsMax` decides nothing. */
export function addedBar(
  valueUs: number,
  spreadUs: number,
  bar: { readonly p50UsMax: number; readonly spreadUsMax: number },
): Bar {
  const rule = `median time added to a token at most ${bar.p50UsMax} µs`
  const shared = { rule, limit: bar.p50UsMax, value: valueUs }
  if (spreadUs > bar.spreadUsMax) return { ...shared, verdict: 'too-noisy' }
  return { ...shared, verdict: valueUs <= bar.p50UsMax ? 'pass' : 'fail' }
}

function describe(rounds: readonly Round[], label: string, of: keyof Window) {
  const added = difference(rounds, 'direct', 'routed', of)
  const same = difference(rounds, 'direct', 'directAgain', of)
  return {
    kind: 'router-added-latency' as const,
    label,
    rounds: rounds.length,
    directUs: createDistribution(rounds.flatMap(({ direct }) => direct[of])),
    routedUs: createDistribution(rounds.flatMap(({ routed }) => routed[of])),
    addedUs: added.us,
    addedMedianInterval: added.medianInterval,
    noise: { addedUs: same.us, addedMedianInterval: same.medianInterval, spreadUs: spreadOf(same) },
  }
}

/** Tokens have the bar. First tokens are only reported: they include the whole way to prefill and back. */
export function routerCases(
  rounds: readonly Round[],
  bar: { readonly p50UsMax: number; readonly spreadUsMax: number },
): readonly [tokens: RouterCase, firstTokens: RouterCase] {
  const tokens = describe(rounds, 'a token of a stream', 'tokenUs')
  const first = describe(rounds, 'request to first token', 'firstUs')
  const { addedUs, noise } = tokens
  return [
    { ...tokens, bar: addedBar(addedUs.p50 ?? Infinity, noise.spreadUs, bar) },
    { ...first, bar: onlyReported('median time added', first.addedUs.p50 ?? Infinity) },
  ]
}
