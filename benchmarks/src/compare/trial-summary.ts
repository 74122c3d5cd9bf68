/**
 * Each trial on its own: its validity, start-up and handshake cost, its percentiles; the spread of these
 * across trials; and the requests that lie far outside. Pure.
 */
import { createDistribution, nearestRank } from '../lib/distribution.ts'
import { limits } from '../limits.ts'
import { growth, isTrialValid, overrunShareOf, perSide, utilisationOf } from './engine-summary.ts'
import { metricsOf } from './request-metrics.ts'
import type { Outlier, Spread, TrialSummary } from './result.ts'
import type { Trial } from './trial.ts'

const isNumber = (value: number | null | undefined): value is number => typeof value === 'number'

export function summarise(trial: Trial, index: number): TrialSummary {
  const first = trial.records.find((record) => record.planned.phase === 'first')
  const metrics = trial.measured.records.map(metricsOf)
  const shown = (values: (number | null | undefined)[]) => {
    const { p50, p99 } = createDistribution(values.filter(isNumber))
    return { p50, p99 }
  }
  return {
    trial: index + 1,
    valid: isTrialValid(trial),
    cpuBusy: trial.cpuBusy,
    overrunShare: perSide([trial], overrunShareOf),
    utilisation: utilisationOf(trial),
    timerLateMs: perSide([trial], (engines) => growth(engines, 'timerLateMs')),
    startUpMs: trial.startUpMs,
    firstRequestTtftMs: (first && metricsOf(first)?.ttftMs) ?? null,
    handshakeMs: first?.decode?.load?.handshakeMs ?? null,
    peakConcurrency: trial.measured.peakConcurrency,
    ttftMs: shown(metrics.map((each) => each?.ttftMs)),
    tpotMs: shown(metrics.map((each) => each?.tpotMs)),
  }
}

function rangeOf(values: readonly (number | null)[]): { min: number | null; max: number | null } {
  const numbers = values.filter(isNumber)
  if (numbers.length === 0) return { min: null, max: null }
  return { min: Math.min(...numbers), max: Math.max(...numbers) }
}

export function spreadOf(summaries: readonly TrialSummary[]): {
  ttftMs: Spread
  tpotMs: Spread
} {
  const of = (key: 'ttftMs' | 'tpotMs'): Spread => ({
    p50: rangeOf(summaries.map((summary) => summary[key].p50)),
    p99: rangeOf(summaries.map((summary) => summary[key].p99)),
  })
  return { ttftMs: of('ttftMs'), tpotMs: of('tpotMs') }
}

/** Far out by Tukey's outer fence (3 interquartile ranges above the upper quartile) of its own trial. */
export function outliersOf(trials: readonly Trial[]): Outlier[] {
  const outliers = trials.flatMap((trial, index) => {
    const times = trial.measured.records.flatMap((record) => {
      const e2elMs = metricsOf(record)?.e2elMs
      return e2elMs === undefined ? [] : [{ planned: record.planned, e2elMs }]
    })
    if (times.length === 0) return []
    const sorted = times.map((each) => each.e2elMs).sort((a, b) => a - b)
    const lower = nearestRank(sorted, 25)
    const upper = nearestRank(sorted, 75)
    const fenceMs = upper + 3 * (upper - lower)
    return times
      .filter((each) => each.e2elMs > fenceMs)
      .map(({ planned, e2elMs }) => ({
        trial: index + 1,
        index: planned.index,
        promptTokens: planned.prompt.length,
        e2elMs,
      }))
  })
  return outliers.sort((a, b) => b.e2elMs - a.e2elMs).slice(0, limits.outliersMax)
}
