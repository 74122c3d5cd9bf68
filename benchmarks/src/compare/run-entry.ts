/**
 * From the trials of one configuration to its entry in the result file. Pure. Observations of several
 * trials are pooled; the spread across trials stands beside the pooled percentiles.
 */
import { createDistribution, type Distribution } from '../lib/distribution.ts'
import { limits } from '../limits.ts'
import type { Configuration } from './configuration.ts'
import * as engine from './engine-summary.ts'
import type { RequestRecord } from './load-client.ts'
import { outputDigest } from './output-digest.ts'
import { breakdownParts, metricsOf, type BreakdownPart } from './request-metrics.ts'
import type { RequestMetrics } from './request-metrics.ts'
import type { RunEntry } from './result.ts'
import { outliersOf, spreadOf, summarise } from './trial-summary.ts'
import type { Trial } from './trial.ts'

export interface RunContext {
  /** The load point, but for what the requests themselves say. */
  readonly point: Pick<RunEntry['point'], 'qps' | 'outputTokens' | 'concurrency'>
  readonly agent: 'nixl' | 'memory'
  readonly prefixCaching: 'on' | 'off'
  /** The oracle's text per index of the plan; null while the oracle itself is entered. */
  readonly oracleTexts: readonly string[] | null
}

export const isMetrics = (metrics: RequestMetrics | null): metrics is RequestMetrics =>
  metrics !== null

/** Distribution of what `read` finds, over requests that have it. Another build's engines may not say all. */
export function over(
  metrics: readonly RequestMetrics[],
  read: (metrics: RequestMetrics) => number | null | undefined,
): Distribution {
  return createDistribution(
    metrics.map(read).filter((value): value is number => Number.isFinite(value)),
  )
}

export function breakdownOver(
  metrics: readonly RequestMetrics[],
): Record<BreakdownPart, Distribution> {
  const entries = breakdownParts.map((part) => [
    part,
    over(metrics, (each) => each.breakdown?.[part]),
  ])
  return Object.fromEntries(entries) as Record<BreakdownPart, Distribution>
}

function sumOver(
  metrics: readonly RequestMetrics[],
  read: (metrics: RequestMetrics) => number | undefined,
): number {
  return metrics.reduce((sum, each) => sum + (read(each) ?? 0), 0)
}

function latencies(metrics: readonly RequestMetrics[]) {
  return {
    ttftMs: over(metrics, (each) => each.ttftMs),
    ttftFromSendMs: over(metrics, (each) => each.ttftFromSendMs),
    tpotMs: over(metrics, (each) => each.tpotMs),
    itlMs: createDistribution(metrics.flatMap((each) => each.itlMs)),
    e2elMs: over(metrics, (each) => each.e2elMs),
    clientQueueMs: over(metrics, (each) => each.clientQueueMs),
    kvWaitMs: over(metrics, (each) => each.load?.kvWaitMs),
    postUs: over(metrics, (each) => each.load?.postUs),
    wireMs: over(metrics, (each) => each.load?.wireMs),
    criticalPathMs: over(metrics, (each) => each.load?.criticalPathMs),
    pathLessWireMs: over(metrics, (each) => each.load?.pathLessWireMs),
    firstPostMs: over(metrics, (each) => each.load?.firstPostMs),
    criticalBytes: over(metrics, (each) => each.load?.criticalBytes),
    blockedUs: {
      total: over(metrics, (each) => each.load?.blockedUs),
      descriptors: over(metrics, (each) => each.load?.blockedDescriptorsUs),
      copy: over(metrics, (each) => each.load?.blockedCopyUs),
    },
    breakdown: breakdownOver(metrics),
  }
}

function pointOf(
  { qps, outputTokens, concurrency }: RunContext['point'],
  measured: readonly RequestRecord[],
): RunEntry['point'] {
  const lengths = measured.map((record) => record.planned.prompt.length)
  const mean = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, lengths.length)
  return {
    qps,
    inputTokens: Math.round(mean),
    inputTokensMax: Math.max(0, ...lengths),
    outputTokens,
    concurrency,
  }
}

function outcomes(records: readonly RequestRecord[], oracleTexts: readonly string[] | null) {
  const failed = records.filter((record) => record.error !== null)
  return {
    failed: failed.length,
    dropped: records.filter((record) => record.sentAtMs === null).length,
    recomputed: records.filter((record) => record.decode?.recomputed === true).length,
    preemptions: records.reduce((sum, record) => sum + (record.decode?.preemptions ?? 0), 0),
    wrongTexts: oracleTexts
      ? records.filter((record) => record.text !== oracleTexts[record.planned.index]).length
      : 0,
    errors: failed
      .slice(0, limits.failuresMax)
      .map((record) => `request ${record.planned.index}: ${record.error}`),
  }
}

/** All trials must give the same texts; the first that differs from the first trial is shown. */
function digestOf(trials: readonly Trial[]): string {
  const digests = trials.map((trial) => outputDigest(trial.records))
  const first = digests[0] ?? ''
  return digests.find((digest) => digest !== first) ?? first
}

function enginesEntry(trials: readonly Trial[], measuredCount: number) {
  return {
    stepOverrunMs: trials.reduce(
      (sum, trial) => sum + engine.growth(trial.engines, 'overrunMs'),
      0,
    ),
    stepStallMs: trials.reduce(
      (sum, trial) => sum + engine.growth(trial.engines, 'stepStallMs'),
      0,
    ),
    hookUsPerStep: engine.perSide(trials, (engines) =>
      engine.pooled(engines.map((each) => each.end.hookUsPerStep)),
    ),
    cpuSecondsPerRequest: engine.perSide(trials, (engines) => {
      if (engines.some((each) => each.cpuSeconds === null)) return null
      const total = engines.reduce((sum, each) => sum + (each.cpuSeconds ?? 0), 0)
      return total / Math.max(1, measuredCount)
    }),
    blockSecondsHeld: engine.perSide(trials, (engines) =>
      engine.growth(engines, 'blockSecondsHeld'),
    ),
    counters: engine.perSide(trials, (engines) =>
      engine.sumCounters(engines.flatMap(({ end }) => [end.agentCounters, end.connectorCounters])),
    ),
  }
}

function buildOf(configuration: Configuration | null): RunEntry['build'] {
  const { build } = configuration ?? {}
  return build ? { name: build.name, commit: build.commit } : null
}

export function createRunEntry(
  configuration: Configuration | null,
  trials: readonly Trial[],
  context: RunContext,
): RunEntry {
  const [firstTrial] = trials
  if (!firstTrial) throw new RangeError('a run needs a trial')
  const records = trials.flatMap((trial) => trial.records)
  const measured = trials.flatMap((trial) => trial.measured.records)
  const burst = trials.flatMap((trial) => trial.burst.records)
  const metrics = measured.map(metricsOf).filter(isMetrics)
  const burstMetrics = burst.map(metricsOf).filter(isMetrics)
  const wallSeconds = trials.reduce(
    (sum, { measured: phase }) => sum + (phase.endedAtMs - phase.startedAtMs) / 1_000,
    0,
  )
  const summaries = trials.map((trial, index) => summarise(trial, index))
  const ends = trials.flatMap((trial) => trial.engines.map((each) => each.end))
  return {
    connector: configuration?.connector ?? 'none',
    label: configuration?.label ?? 'oracle',
    point: pointOf(context.point, measured),
    options: {
      ...configuration?.options,
      ...(configuration?.path && { path: configuration.path }),
    },
    build: buildOf(configuration),
    valid: summaries.every((summary) => summary.valid),
    cpuBusy: Math.max(...trials.map((trial) => trial.cpuBusy)),
    utilisation: engine.highest(summaries.map(({ utilisation }) => utilisation)),
    agent: context.agent,
    transports: [...new Set(ends.flatMap((stats) => stats.transports))].sort(),
    hooks: ends[0]?.hooks ?? '–',
    kvScale: ends[0]?.kvScale ?? 1,
    prefixCaching: context.prefixCaching,
    requests: measured.length + burst.length,
    ...outcomes(records, context.oracleTexts),
    ...engine.verificationOf(trials, configuration !== null),
    bytes: sumOver(metrics, (each) => each.load?.bytes),
    outputTokensPerS: measured.reduce((sum, record) => sum + record.outputTokens, 0) / wallSeconds,
    descriptors: {
      beforeMerge: sumOver(metrics, (each) => each.load?.descriptorsBeforeMerge),
      afterMerge: sumOver(metrics, (each) => each.load?.descriptorsAfterMerge),
    },
    ...latencies(metrics),
    ...enginesEntry(trials, measured.length),
    memoryBytes: engine.memoryOf(firstTrial),
    outputDigest: digestOf(trials),
    burst: {
      requests: burst.length,
      peakConcurrency: Math.max(...trials.map((trial) => trial.burst.peakConcurrency)),
      ttftMs: over(burstMetrics, (each) => each.ttftMs),
      e2elMs: over(burstMetrics, (each) => each.e2elMs),
    },
    trials: summaries,
    spread: spreadOf(summaries),
    outliers: outliersOf(trials),
  }
}
