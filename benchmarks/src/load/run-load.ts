/**
 * The load experiment: the same requests with each configuration, one by one, 16 and 32 at a time, and cold
 * arrivals during background decode. Assembles the result; writes nothing.
 */
import { createSeededRandom } from '@kvferry/connector-api/testing'
import type { CompareDependencies } from '../compare/compare.ts'
import type { Observations } from '../compare/noise-floor.ts'
import type { RunContext } from '../compare/run-entry.ts'
import { unlessInvalid } from '../experiments/bar.ts'
import {
  environmentOf,
  experimentNoise,
  judgeExperiment,
  measureInTurn,
  type Surroundings,
} from '../experiments/experiment.ts'
import { plannedRequests } from '../experiments/experiment-trial.ts'
import { loadBars } from './bars.ts'
import { loadChecks } from './checks.ts'
import { planLoad, type LoadPlan, type LoadPlanOptions } from './plan.ts'
import type { LoadPreset } from './presets.ts'
import type { LoadResult, LoadWorkload } from './result.ts'
import { coldTtfts, createLoadRunEntry, type LoadTrial } from './run-entry.ts'
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

const noiseObservations = (trials: readonly LoadTrial[], plan: LoadPlan): Observations => ({
  coldArrivalTtftMs: coldTtfts(trials, plan),
})

function workloadOf(options: LoadOptions, plan: LoadPlan): LoadWorkload {
  const { preset, runs, prefixCaching } = options
  const hooks = [...new Set(runs.map(({ configuration }) => configuration.hooks))].join(', ')
  return {
    preset: preset.name,
    requests: plannedRequests(plan).length,
    trials: preset.trials,
    plan: { ...scaledPlan(preset) },
    engine: { ...preset.engine, hooks },
    prefixCaching,
  }
}

/**
 * @throws RangeError without runs; Error when a cluster doesn't come up or a part of it ends; the signal's
 *   reason when interrupted. Failed requests, wrong bytes and wrong counters are in the verdict instead.
 */
export async function runLoad(
  options: LoadOptions,
  dependencies: CompareDependencies,
): Promise<LoadResult> {
  const { preset, runs, agent, prefixCaching, seed } = options
  const [first] = runs
  if (!first) throw new RangeError('nothing to run')
  const plan = planLoad({ ...scaledPlan(preset), random: createSeededRandom(seed) })
  const measured = await measureInTurn(runs, plan, preset.trials, options, dependencies)
  const context: RunContext = {
    ...{ agent, prefixCaching, oracleTexts: null },
    point: { qps: null, outputTokens: preset.plan.outputTokens, concurrency: 32 },
  }
  const entries = runs.map((run, i) =>
    createLoadRunEntry(run, measured.byConfiguration[i] ?? [], plan, context),
  )
  const { again } = measured
  const noiseFloor = experimentNoise(
    first.label,
    noiseObservations(measured.byConfiguration[0] ?? [], plan),
    again.length > 0 ? noiseObservations(again, plan) : null,
  )
  // The A-A repeat is judged like the others: a wrong byte there is a wrong byte.
  const repeated = again.length > 0 ? [{ ...first, label: `${first.label} (again)` }] : []
  const judged = [
    ...entries,
    ...repeated.map((run) => createLoadRunEntry(run, again, plan, context)),
  ]
  const workload = workloadOf(options, plan)
  const bars = unlessInvalid(loadBars(entries, noiseFloor), entries)
  return {
    schema: 'kvferry.load/1',
    agent,
    environment: environmentOf(options, entries),
    workload,
    noiseFloor,
    runs: entries,
    bars,
    verdict: judgeExperiment(
      judged,
      judged.flatMap((run) => loadChecks(run, workload)),
      bars,
      preset.requiresValid,
    ),
  }
}
