/** From the trials of one run to its entry in a `load` result. Pure; trials are pooled. */
import type { RequestRecord } from '../compare/load-client.ts'
import { loopSeconds, type LoopResult } from '../compare/loop-result.ts'
import { metricsOf, type RequestMetrics } from '../compare/request-metrics.ts'
import {
  breakdownOver,
  createRunEntry,
  isMetrics,
  over,
  type RunContext,
} from '../compare/run-entry.ts'
import {
  producerTotals,
  type ExperimentTrial,
  type ObservedStep,
} from '../experiments/experiment-trial.ts'
import {
  missingCounters,
  readHistoryCounters,
  sumHistory,
} from '../experiments/history-counters.ts'
import { ticketCounterNames } from '../experiments/ticket-checks.ts'
import { loadPhases, type LoadPlan, type LoadStep, type RequestKind } from './plan.ts'
import type { LoadPhase, LoadRunEntry } from './result.ts'
import type { LoadRun } from './runs-of.ts'

export type LoadTrial = ExperimentTrial<LoadStep>

const stepsOf = (trials: readonly LoadTrial[], kind: LoadStep): ObservedStep<LoadStep>[] =>
  trials.flatMap(({ steps }) => steps.filter((step) => step.kind === kind))

const measured = (records: readonly RequestRecord[]): RequestMetrics[] =>
  records.map(metricsOf).filter(isMetrics)

const tokensOf = ({ records }: LoopResult): number =>
  records.reduce((sum, { outputTokens }) => sum + outputTokens, 0)

function phaseOf(trials: readonly LoadTrial[], kind: LoadStep): LoadPhase {
  const steps = stepsOf(trials, kind)
  const records = steps.flatMap(({ result }) => result.records)
  const metrics = measured(records)
  const seconds = steps.reduce((sum, { result }) => sum + loopSeconds(result), 0)
  return {
    requests: records.length,
    failed: records.filter(({ error }) => error !== null).length,
    concurrency: steps[0]?.concurrency ?? null,
    outputTokensPerS: steps.reduce((sum, { result }) => sum + tokensOf(result), 0) / seconds,
    outputTokensPerSByTrial: steps.map(({ result }) => tokensOf(result) / loopSeconds(result)),
    ttftMs: over(metrics, ({ ttftMs }) => ttftMs),
    tpotMs: over(metrics, ({ tpotMs }) => tpotMs),
    e2elMs: over(metrics, ({ e2elMs }) => e2elMs),
  }
}

export function recordsOf(
  trials: readonly LoadTrial[],
  plan: Pick<LoadPlan, 'kindOf'>,
  kind: RequestKind,
): RequestRecord[] {
  return stepsOf(trials, 'overlap')
    .flatMap(({ result }) => result.records)
    .filter(({ planned }) => plan.kindOf(planned.index) === kind)
}

/** What the connector does between P's end and the KV on D; waiting for a step of D's, before and after, isn't that. */
const pathParts = ['handOver', 'dispatch', 'post', 'wire'] as const

function pathMs({ breakdown }: RequestMetrics): number | null {
  if (breakdown === null) return null
  return pathParts.reduce((sum, part) => sum + (breakdown[part] ?? 0), 0)
}

export const coldTtfts = (trials: readonly LoadTrial[], plan: LoadPlan): number[] =>
  measured(recordsOf(trials, plan, 'cold'))
    .map(({ ttftMs }) => ttftMs)
    .filter((value) => value !== null)

/** Whether one of `background` had its first token by the send, and its last one not before the answer began. */
export function isDuringDecode(cold: RequestRecord, background: readonly RequestRecord[]): boolean {
  const { sentAtMs, tokenAtMs } = cold
  const firstAtMs = tokenAtMs[0]
  if (sentAtMs === null || firstAtMs === undefined) return false
  return background.some((each) => {
    const [beganAtMs, endedAtMs] = [each.tokenAtMs[0], each.tokenAtMs.at(-1)]
    if (beganAtMs === undefined || endedAtMs === undefined) return false
    return beganAtMs <= sentAtMs && endedAtMs >= firstAtMs
  })
}

export function createLoadRunEntry(
  run: LoadRun,
  trials: readonly LoadTrial[],
  plan: LoadPlan,
  context: RunContext,
): LoadRunEntry {
  const cold = recordsOf(trials, plan, 'cold')
  const coldMetrics = measured(cold)
  const totals = trials.map(producerTotals)
  const phases = Object.fromEntries(
    loadPhases.map((kind) => [kind, phaseOf(trials, kind)]),
  ) as Record<LoadStep, LoadPhase>
  return {
    ...createRunEntry(run.configuration, trials, context),
    label: run.label,
    role: run.role,
    phases,
    coldArrivalTtftMs: over(coldMetrics, ({ ttftMs }) => ttftMs),
    coldPathMs: over(coldMetrics, pathMs),
    coldBreakdown: breakdownOver(coldMetrics),
    coldArrivals: cold.length,
    // Each trial by itself: moments of different trials don't compare.
    coldDuringDecode: trials.reduce((sum, trial) => {
      const background = recordsOf([trial], plan, 'background')
      const met = recordsOf([trial], plan, 'cold').filter((each) =>
        isDuringDecode(each, background),
      )
      return sum + met.length
    }, 0),
    backgroundTpotMs: over(measured(recordsOf(trials, plan, 'background')), ({ tpotMs }) => tpotMs),
    history: sumHistory(totals.map(readHistoryCounters)),
    missingCounters:
      run.role === 'direct' || run.role === 'snapshot'
        ? [...new Set(totals.flatMap((each) => missingCounters(each, ticketCounterNames)))]
        : [],
  }
}
