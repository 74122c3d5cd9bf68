/**
 * The bars of the load experiment: a connector with tickets loses no throughput against pull, and cold arrivals
 * wait no longer than with pull, nor than where P stages a whole snapshot first, and have their KV sooner. Pure.
 */
import type { NoiseFloor } from '../compare/result.ts'
import { atLeast, atMostBesideNoise, below, type Bar } from '../experiments/bar.ts'
import type { LoadRunEntry } from './result.ts'

export const loadLimits = {
  /** Output tokens a second, as a share of pull's. */
  throughputShare: 0.98,
} as const

function throughputBar(base: LoadRunEntry, run: LoadRunEntry, phase: 'c16' | 'c32'): Bar {
  const [ours, theirs] = [run.phases[phase].outputTokensPerS, base.phases[phase].outputTokensPerS]
  return atLeast(
    {
      subject: run.label,
      rule: `${phase.toUpperCase()} output tokens a second at least 98 % of ${base.label}'s`,
      note: `${ours.toFixed(1)} of ${theirs.toFixed(1)} a second`,
    },
    ours / theirs,
    loadLimits.throughputShare,
  )
}

function coldBar(
  base: LoadRunEntry,
  run: LoadRunEntry,
  statistic: 'p50' | 'p95',
  noise: NoiseFloor,
): Bar {
  const spread = noise.metrics[`coldArrivalTtftMs.${statistic}`]?.relativeDifference ?? null
  return atMostBesideNoise(
    {
      subject: run.label,
      rule: `cold arrivals' TTFT ${statistic} at most ${base.label}'s and its noise`,
      note: 'ms',
    },
    run.coldArrivalTtftMs[statistic],
    base.coldArrivalTtftMs[statistic],
    spread,
  )
}

/**
 * Staging lies between P's end and the KV on D, so that is where direct handoff has to be shorter. Whether the first
 * token comes sooner, too, is up to D's steps: a load that ends within one is waited for until its end.
 */
const snapshotBar = (snapshot: LoadRunEntry, run: LoadRunEntry): Bar =>
  below(
    {
      subject: run.label,
      rule: `cold arrivals' KV on D, p50, sooner after P's end than ${snapshot.label}'s`,
      note: "ms, without waiting for D's steps",
    },
    run.coldPathMs.p50,
    snapshot.coldPathMs.p50,
  )

/** Empty where no connector with tickets ran, or neither pull nor a snapshot beside it. */
export function loadBars(runs: readonly LoadRunEntry[], noise: NoiseFloor): Bar[] {
  const base = runs.find(({ role }) => role === 'baseline') ?? null
  const direct = runs.filter(({ role }) => role === 'direct')
  return direct.flatMap((run) => {
    const snapshot = runs.find(
      ({ role, connector }) => role === 'snapshot' && connector === run.connector,
    )
    const percentiles = ['p50', 'p95'] as const
    return [
      ...(base ? (['c16', 'c32'] as const).map((phase) => throughputBar(base, run, phase)) : []),
      ...(base ? percentiles.map((statistic) => coldBar(base, run, statistic, noise)) : []),
      ...(snapshot
        ? [
            snapshotBar(snapshot, run),
            ...percentiles.map((statistic) => coldBar(snapshot, run, statistic, noise)),
          ]
        : []),
    ]
  })
}
