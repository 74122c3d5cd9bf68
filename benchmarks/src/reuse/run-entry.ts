/** From the trials of one run to its entry in a `reuse` result. Pure; trials are pooled. */
import { createRunEntry, type RunContext } from '../compare/run-entry.ts'
import {
  producerTotals,
  type ExperimentTrial,
  type ObservedStep,
} from '../experiments/experiment-trial.ts'
import {
  missingCounters,
  readHistoryCounters,
  sumHistory,
  type HistoryCounters,
} from '../experiments/history-counters.ts'
import { ticketCounterNames } from '../experiments/ticket-checks.ts'
import { createDistribution, type Distribution } from '../lib/distribution.ts'
import type { ReuseStep } from './plan.ts'
import type { ReuseCycle, ReuseRunEntry } from './result.ts'
import { observe, type Observation } from './revisits.ts'
import type { ReuseRun } from './runs-of.ts'

export type ReuseTrial = ExperimentTrial<ReuseStep>
type Step = ObservedStep<ReuseStep>

const requiredCounters = [
  ...ticketCounterNames,
  'loads',
  'hitBlocks',
  'deviceHitBlocks',
  'hostHitBlocks',
  'rejectedBlocks',
  'failures',
] as const

const stepsOf = (trials: readonly ReuseTrial[], kind: ReuseStep): Step[] =>
  trials.flatMap(({ steps }) => steps.filter((step) => step.kind === kind))

export function observationsOf(
  run: ReuseRun,
  trials: readonly ReuseTrial[],
  kind: ReuseStep,
  cycle: number | null = null,
): Observation[] {
  const steps = stepsOf(trials, kind).filter((step) => cycle === null || step.cycle === cycle)
  return steps
    .flatMap(({ result }) => result.records)
    .map((record) => observe(record, run.shape))
    .filter((each) => each !== null)
}

export function valuesOf(
  observations: readonly Observation[],
  read: (observation: Observation) => number | null,
): number[] {
  return observations.map(read).filter((value) => value !== null)
}

const over = (
  observations: readonly Observation[],
  read: (observation: Observation) => number | null,
): Distribution => createDistribution(valuesOf(observations, read))

const historyIn = (steps: readonly Step[]): HistoryCounters =>
  sumHistory(steps.map(({ counters }) => readHistoryCounters(counters)))

function cyclesOf(run: ReuseRun, trials: readonly ReuseTrial[]): ReuseCycle[] {
  const numbers = [...new Set(stepsOf(trials, 'revisit').map(({ cycle }) => cycle))]
  return numbers.map((cycle) => {
    const revisits = observationsOf(run, trials, 'revisit', cycle)
    const steps = trials.flatMap((trial) => trial.steps.filter((step) => step.cycle === cycle))
    const { loads, hitBlocks } = historyIn(steps.filter(({ kind }) => kind === 'revisit'))
    return {
      cycle,
      immediateTtftMs: over(
        observationsOf(run, trials, 'immediate', cycle),
        ({ ttftMs }) => ttftMs,
      ),
      revisitTtftMs: over(revisits, ({ ttftMs }) => ttftMs),
      prefillCallMs: over(revisits, ({ prefillCallMs }) => prefillCallMs),
      loads,
      hitBlocks,
      rejectedBlocks: historyIn(steps).rejectedBlocks,
    }
  })
}

export function createReuseRunEntry(
  run: ReuseRun,
  trials: readonly ReuseTrial[],
  context: RunContext,
): ReuseRunEntry {
  const { configuration, label, role, shape } = run
  const revisits = observationsOf(run, trials, 'revisit')
  const immediate = observationsOf(run, trials, 'immediate')
  const revisitRecords = stepsOf(trials, 'revisit').flatMap(({ result }) => result.records)
  const restored = revisits.filter(({ restoredTokens }) => restoredTokens > 0)
  const totals = trials.map(producerTotals)
  return {
    ...createRunEntry(configuration, trials, context),
    label,
    role,
    blockCount: shape.blockCount,
    immediateTtftMs: over(immediate, ({ ttftMs }) => ttftMs),
    revisitTtftMs: over(revisits, ({ ttftMs }) => ttftMs),
    prefillCallMs: over(revisits, ({ prefillCallMs }) => prefillCallMs),
    immediatePrefillCallMs: over(immediate, ({ prefillCallMs }) => prefillCallMs),
    modelledPrefillMs: over(revisits, (each) => each.modelledPrefillMs),
    modelledRevisitMs: over(revisits, (each) => each.modelledPrefillMs + (each.restoreMs ?? 0)),
    restoreMs: over(restored, ({ restoreMs }) => restoreMs),
    restoredTokens: over(restored, ({ restoredTokens }) => restoredTokens),
    revisits: revisitRecords.length,
    revisitBlocks: revisitRecords.reduce(
      (sum, { planned }) => sum + Math.ceil((planned.prompt.length - 1) / shape.blockTokens),
      0,
    ),
    history: sumHistory(totals.map(readHistoryCounters)),
    revisitHistory: historyIn(stepsOf(trials, 'revisit')),
    missingCounters:
      role === 'history'
        ? [...new Set(totals.flatMap((each) => missingCounters(each, requiredCounters)))]
        : [],
    cycles: cyclesOf(run, trials),
  }
}
