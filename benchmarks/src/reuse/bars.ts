/**
 * The bars of the reuse experiments: what a history gains on a stable hot set, that the gain is what the time
 * model says it should be, and that a changing working set is no worse off. Pure.
 */
import type { NoiseFloor } from '../compare/result.ts'
import { atLeast, atMost, atMostBesideNoise, below, type Bar } from '../experiments/bar.ts'
import type { ReuseRunEntry, ReuseWorkload } from './result.ts'

type Statistic = 'p50' | 'p95' | 'mean'
export const statistics: readonly Statistic[] = ['p50', 'p95', 'mean']

export const reuseLimits = {
  /** |measured − modelled reduction| as a share of the modelled one. */
  modelDifference: 0.15,
  explainedShare: 0.8,
  /** Immediate repeats against the baseline's. */
  immediateRatio: 1.1,
} as const

const minus = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? null : a - b
const ratio = (a: number | null, b: number | null): number | null =>
  a === null || b === null || b === 0 ? null : a / b
const ms = (value: number | null): string => (value === null ? '–' : `${value.toFixed(1)} ms`)

/** `pull` where it ran, because the published comparison is against it. */
export function baselineOf(runs: readonly ReuseRunEntry[]): ReuseRunEntry | null {
  const baselines = runs.filter(({ role }) => role === 'baseline')
  return baselines.find(({ connector }) => connector === 'pull') ?? baselines[0] ?? null
}

/**
 * How much sooner the first token should come: what P doesn't compute, less what restoring takes. Both of one
 * request are added before percentiles are taken: the slowest restore isn't the longest prefill's.
 */
export function modelledReductionMs(
  base: ReuseRunEntry,
  run: ReuseRunEntry,
  statistic: Statistic,
): number | null {
  return minus(base.modelledRevisitMs[statistic], run.modelledRevisitMs[statistic])
}

export const reductionMs = (
  base: ReuseRunEntry,
  run: ReuseRunEntry,
  statistic: Statistic,
): number | null => minus(base.revisitTtftMs[statistic], run.revisitTtftMs[statistic])

function modelBar(base: ReuseRunEntry, run: ReuseRunEntry, statistic: Statistic): Bar {
  const measured = reductionMs(base, run, statistic)
  const modelled = modelledReductionMs(base, run, statistic)
  const difference = minus(measured, modelled)
  return atMost(
    {
      subject: run.label,
      rule: `revisit TTFT ${statistic}: reduction against ${base.label} within 15 % of skipped prefill − restore`,
      note: `measured ${ms(measured)}, modelled ${ms(modelled)}`,
    },
    ratio(difference === null ? null : Math.abs(difference), modelled),
    reuseLimits.modelDifference,
  )
}

function controlBars(run: ReuseRunEntry, others: readonly ReuseRunEntry[]): Bar[] {
  const controls = others.filter(({ role }) => role !== 'history')
  return controls.flatMap((control) =>
    statistics.map((statistic) =>
      below(
        {
          subject: run.label,
          rule: `revisit TTFT ${statistic} lower than ${control.label}'s`,
          note: 'ms',
        },
        run.revisitTtftMs[statistic],
        control.revisitTtftMs[statistic],
      ),
    ),
  )
}

function explainedBar(base: ReuseRunEntry, run: ReuseRunEntry): Bar {
  const gain = reductionMs(base, run, 'mean')
  const shorter = minus(base.prefillCallMs.mean, run.prefillCallMs.mean)
  return atLeast(
    {
      subject: run.label,
      rule: `prefillCallMs explains at least 80 % of the gain against ${base.label}, mean`,
      note: `P's call ${ms(shorter)} shorter, first token ${ms(gain)} sooner`,
    },
    // Without a gain there is nothing to explain, and the bars above say so.
    gain === null || gain <= 0 ? null : ratio(shorter, gain),
    reuseLimits.explainedShare,
  )
}

function changingBars(base: ReuseRunEntry, run: ReuseRunEntry, noise: NoiseFloor): Bar[] {
  const spread = noise.metrics['revisitTtftMs.p50']?.relativeDifference ?? null
  return [
    below(
      { subject: run.label, rule: `revisit TTFT mean lower than ${base.label}'s`, note: 'ms' },
      run.revisitTtftMs.mean,
      base.revisitTtftMs.mean,
    ),
    atMostBesideNoise(
      {
        subject: run.label,
        rule: `revisit TTFT p50 not worse than ${base.label}'s beyond noise`,
        note: 'ms',
      },
      run.revisitTtftMs.p50,
      base.revisitTtftMs.p50,
      spread,
    ),
    atMost(
      {
        subject: run.label,
        rule: `immediate repeats p50 at most 10 % worse than ${base.label}'s`,
        note: 'ratio',
      },
      ratio(run.immediateTtftMs.p50, base.immediateTtftMs.p50),
      reuseLimits.immediateRatio,
    ),
  ]
}

/**
 * Empty where no configuration with a history ran, or no baseline beside it. The time model knows of no
 * waiting for another request's prefill, so it says nothing where several callers compete.
 */
export function reuseBars(
  { workingSet, concurrency }: Pick<ReuseWorkload, 'workingSet' | 'concurrency'>,
  runs: readonly ReuseRunEntry[],
  noise: NoiseFloor,
): Bar[] {
  const base = baselineOf(runs)
  if (!base || workingSet === 'capacity-tier') return []
  const measured = runs.filter(({ role }) => role === 'history')
  return measured.flatMap((run) =>
    workingSet === 'hot'
      ? [
          ...(concurrency === 1
            ? statistics.map((statistic) => modelBar(base, run, statistic))
            : []),
          ...controlBars(run, runs),
          explainedBar(base, run),
        ]
      : changingBars(base, run, noise),
  )
}
