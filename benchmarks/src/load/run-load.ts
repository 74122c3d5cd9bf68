/**
 * The load experiment: the same requests with each configuration, one by one, 16 and 32 at a time, and cold
 * arrivals during background decode. Assembles the result; writes nothing.
 */
import { createSeededRandom } from '@kvferry/connector-api/testing'
import type { CompareDependencies } from '../compare/compare.ts'
import { hooksOf, type Surroundings } from '../experiments/experiment.ts'
import { plannedRequests } from '../experiments/experiment-trial.ts'
import { runExperiment } from '../experiments/run-experiment.ts'
import { loadBars } from './bars.ts'
import { loadChecks } from './checks.ts'
import { planLoad, type LoadPlan, type LoadPlanOptions, type LoadStep } from './plan.ts'
import type { LoadPreset } from './presets.ts'
import type { LoadResult, LoadRunEntry, LoadWorkload } from './result.ts'
import { coldTtfts, createLoadRunEntry } from './run-entry.ts'
import type { LoadRun } from './runs-of.ts'

export interface LoadOptions extends Surroundings {
  readonly preset: LoadPreset
  /** At least one, from `loadRuns`. */
  readonly runs: readonly LoadRun[]
}

/** A slower device has its cold arrivals further apart, or they would be another load. */
const scaledPlan = ({ plan, engine }: LoadPreset): Omit<LoadPlanOptions, 'random'> => ({
  ...plan,
  coldGapMs: plan.coldGapMs * engine.timeScale,
})

function workloadOf(options: LoadOptions, plan: LoadPlan): LoadWorkload {
  const { preset, runs, prefixCaching } = options
  return {
    preset: preset.name,
    requests: plannedRequests(plan).length,
    trials: preset.trials,
    plan: { ...scaledPlan(preset) },
    engine: { ...preset.engine, hooks: hooksOf(runs) },
    prefixCaching,
  }
}

/** @throws as `runExperiment` does. */
export async function runLoad(
  options: LoadOptions,
  dependencies: CompareDependencies,
): Promise<LoadResult> {
  const { preset, runs, agent, seed } = options
  const plan = planLoad({ ...scaledPlan(preset), random: createSeededRandom(seed) })
  const workload = workloadOf(options, plan)
  const outcome = await runExperiment<LoadStep, LoadRun, LoadRunEntry>(
    {
      ...{ plan, runs, trials: preset.trials, requiresValid: preset.requiresValid },
      point: { qps: null, outputTokens: preset.plan.outputTokens, concurrency: 32 },
      entryOf: (run, trials, context) => createLoadRunEntry(run, trials, plan, context),
      observationsOf: (_, trials) => ({ coldArrivalTtftMs: coldTtfts(trials, plan) }),
      barsOf: loadBars,
      checksOf: (entry) => loadChecks(entry, workload),
    },
    options,
    dependencies,
  )
  return { schema: 'kvferry.load/1', agent, workload, ...outcome }
}
