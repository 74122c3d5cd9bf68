/**
 * A-A: how far two measurements of the same configuration lie apart. A difference between connectors
 * below it says nothing. Short presets compare the odd and even requests of one run (`split-half`),
 * long ones its trials (`repeated-run`): of all ways to part them into two sets of equal size, the one in which
 * the sets lie farthest apart. One parting alone may be as lucky as a comparison, and would then let half of all
 * differences without a cause pass for one.
 */
import { nearestRank } from '../lib/distribution.ts'
import type { RequestMetrics } from './request-metrics.ts'
import type { NoiseFloor, NoiseMetric } from './result.ts'

const observed: Readonly<Record<string, (metrics: RequestMetrics) => number | null>> = {
  ttftMs: (metrics) => metrics.ttftMs,
  tpotMs: (metrics) => metrics.tpotMs,
  e2elMs: (metrics) => metrics.e2elMs,
  criticalPathMs: (metrics) => metrics.load?.criticalPathMs ?? null,
}

function percentileOf(values: readonly number[], percent: number): number | null {
  if (values.length === 0) return null
  return nearestRank(
    [...values].sort((x, y) => x - y),
    percent,
  )
}

const meanOf = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length

function difference(a: number | null, b: number | null): NoiseMetric {
  if (a === null || b === null || a + b === 0) return { a, b, relativeDifference: null }
  return { a, b, relativeDifference: Math.abs(a - b) / Math.abs((a + b) / 2) }
}

/** One metric's observations, in the order they were made, by name. */
export type Observations = Readonly<Record<string, readonly number[]>>

const percents = [50, 99] as const

/** Names of the result: `METRIC.pPERCENT`, and `METRIC.mean`. */
export function compareSets(
  a: Observations,
  b: Observations,
  shown: readonly number[] = percents,
): Record<string, NoiseMetric> {
  const result: Record<string, NoiseMetric> = {}
  for (const name of Object.keys(a)) {
    const [ofA, ofB] = [a[name] ?? [], b[name] ?? []]
    for (const percent of shown) {
      result[`${name}.p${percent}`] = difference(
        percentileOf(ofA, percent),
        percentileOf(ofB, percent),
      )
    }
    result[`${name}.mean`] = difference(meanOf(ofA), meanOf(ofB))
  }
  return result
}

const joined = (sets: readonly Observations[]): Observations =>
  Object.fromEntries(
    Object.keys(sets[0] ?? {}).map((name) => [name, sets.flatMap((set) => set[name] ?? [])]),
  )

/** Index sets of half of `count`, an even number, all with 0: each parting once. */
function partings(count: number): number[][] {
  const grow = (chosen: number[], next: number): number[][] => {
    if (chosen.length === count / 2) return [chosen]
    if (next === count) return []
    return [...grow([...chosen, next], next + 1), ...grow(chosen, next + 1)]
  }
  return grow([0], 1)
}

const isFarther = (one: NoiseMetric, other: NoiseMetric | undefined): boolean =>
  other === undefined || (one.relativeDifference ?? -1) > (other.relativeDifference ?? -1)

/** Observations of each trial of one configuration, an even number of trials. Of each metric the worst parting. */
export function compareTrials(
  trials: readonly Observations[],
  shown: readonly number[] = percents,
): Record<string, NoiseMetric> {
  const worst: Record<string, NoiseMetric> = {}
  for (const half of partings(trials.length)) {
    const [a, b] = [true, false].map((wanted) =>
      joined(trials.filter((_, i) => half.includes(i) === wanted)),
    ) as [Observations, Observations]
    for (const [name, found] of Object.entries(compareSets(a, b, shown))) {
      if (isFarther(found, worst[name])) worst[name] = found
    }
  }
  return worst
}

/** Even and odd ones of what was observed in order, so that both halves cover the whole run. */
export function halvesOf(observations: Observations): readonly [Observations, Observations] {
  const half = (parity: number): Observations =>
    Object.fromEntries(
      Object.entries(observations).map(([name, values]) => [
        name,
        values.filter((_, i) => i % 2 === parity),
      ]),
    )
  return [half(0), half(1)]
}

const observationsOf = (metrics: readonly RequestMetrics[]): Observations =>
  Object.fromEntries(
    Object.entries(observed).map(([name, read]) => [
      name,
      metrics.map(read).filter((value) => value !== null),
    ]),
  )

/** `metrics` in schedule order, so that both halves cover the whole run. */
export function splitHalf(label: string, metrics: readonly RequestMetrics[]): NoiseFloor {
  const even = observationsOf(metrics.filter((_, i) => i % 2 === 0))
  const odd = observationsOf(metrics.filter((_, i) => i % 2 === 1))
  return { method: 'split-half', label, metrics: compareSets(even, odd) }
}

/** Metrics of each trial, an even number of them. */
export function repeatedRun(
  label: string,
  trials: readonly (readonly RequestMetrics[])[],
): NoiseFloor {
  return { method: 'repeated-run', label, metrics: compareTrials(trials.map(observationsOf)) }
}
