/**
 * A-A: how far two measurements of the same configuration lie apart. A difference between connectors
 * below it says nothing. Short presets compare the odd and even requests of one run (`split-half`),
 * long ones two sets of trials (`repeated-run`).
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

export function repeatedRun(
  label: string,
  a: readonly RequestMetrics[],
  b: readonly RequestMetrics[],
): NoiseFloor {
  const metrics = compareSets(observationsOf(a), observationsOf(b))
  return { method: 'repeated-run', label, metrics }
}
