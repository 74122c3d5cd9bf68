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

function difference(a: number | null, b: number | null): NoiseMetric {
  if (a === null || b === null || a + b === 0) return { a, b, relativeDifference: null }
  return { a, b, relativeDifference: Math.abs(a - b) / Math.abs((a + b) / 2) }
}

function compareHalves(
  a: readonly RequestMetrics[],
  b: readonly RequestMetrics[],
): Record<string, NoiseMetric> {
  const result: Record<string, NoiseMetric> = {}
  for (const [name, read] of Object.entries(observed)) {
    const valuesOf = (half: readonly RequestMetrics[]): number[] =>
      half.map(read).filter((value) => value !== null)
    for (const percent of [50, 99]) {
      result[`${name}.p${percent}`] = difference(
        percentileOf(valuesOf(a), percent),
        percentileOf(valuesOf(b), percent),
      )
    }
  }
  return result
}

/** `metrics` in schedule order, so that both halves cover the whole run. */
export function splitHalf(label: string, metrics: readonly RequestMetrics[]): NoiseFloor {
  const even = metrics.filter((_, i) => i % 2 === 0)
  const odd = metrics.filter((_, i) => i % 2 === 1)
  return { method: 'split-half', label, metrics: compareHalves(even, odd) }
}

export function repeatedRun(
  label: string,
  a: readonly RequestMetrics[],
  b: readonly RequestMetrics[],
): NoiseFloor {
  return { method: 'repeated-run', label, metrics: compareHalves(a, b) }
}
