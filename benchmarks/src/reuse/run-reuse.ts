/**
 * The reuse experiment: documents that come back after the engines' caches dropped them, with a history and
 * with every control, on the same requests. Assembles the result; writes nothing.
 */
import type { CompareDependencies } from '../compare/compare.ts'
import type { Observations } from '../compare/noise-floor.ts'
import type { EngineShape } from '../compare/presets.ts'
import { hooksOf, type Surroundings } from '../experiments/experiment.ts'
import { plannedRequests } from '../experiments/experiment-trial.ts'
import { runExperiment } from '../experiments/run-experiment.ts'
import { reuseBars } from './bars.ts'
import { counterChecks } from './counter-checks.ts'
import { documentTokensOf, reuseGeometry } from './geometry.ts'
import { planReuse, type ReuseStep, type WorkingSet } from './plan.ts'
import { historySizingOf, settlingCyclesOf, type ReusePreset } from './presets.ts'
import type { ReuseResult, ReuseRunEntry, ReuseWorkload } from './result.ts'
import { createReuseRunEntry, observationsOf, valuesOf, type ReuseTrial } from './run-entry.ts'
import type { ReuseRun } from './runs-of.ts'

export interface ReuseOptions extends Surroundings {
  readonly preset: ReusePreset
  /** The preset's for this working set, or what was asked for instead. */
  readonly engine: EngineShape
  readonly workingSet: WorkingSet
  readonly cycles: number
  readonly concurrency: number
  /** At least one, from `reuseRuns`. */
  readonly runs: readonly ReuseRun[]
}

function noiseObservations(run: ReuseRun, trials: readonly ReuseTrial[]): Observations {
  const revisits = observationsOf(run, trials, 'revisit')
  const immediate = observationsOf(run, trials, 'immediate')
  return {
    revisitTtftMs: valuesOf(revisits, ({ ttftMs }) => ttftMs),
    immediateTtftMs: valuesOf(immediate, ({ ttftMs }) => ttftMs),
    prefillCallMs: valuesOf(revisits, ({ prefillCallMs }) => prefillCallMs),
  }
}

function workloadOf(options: ReuseOptions, requests: number): ReuseWorkload {
  const { preset, engine, workingSet, runs } = options
  const geometry = reuseGeometry(engine, historySizingOf(preset, workingSet))
  return {
    preset: preset.name,
    workingSet,
    requests,
    cycles: options.cycles,
    settlingCycles: settlingCyclesOf(preset, workingSet, options.concurrency),
    trials: preset.trials,
    concurrency: options.concurrency,
    documentTokens: documentTokensOf(geometry, workingSet),
    outputTokens: preset.outputTokens,
    historyBlocks: geometry.historyBlocks,
    engine: { ...engine, hooks: hooksOf(runs) },
    prefixCaching: options.prefixCaching,
  }
}

/** @throws as `runExperiment` does. */
export async function runReuse(
  options: ReuseOptions,
  dependencies: CompareDependencies,
): Promise<ReuseResult> {
  const { preset, engine, runs, agent, concurrency, workingSet } = options
  const { outputTokens, trials, requiresValid } = preset
  const plan = planReuse({
    ...{ workingSet, concurrency, outputTokens, seed: options.seed, cycles: options.cycles },
    settlingCycles: settlingCyclesOf(preset, workingSet, concurrency),
    documentTokens: documentTokensOf(reuseGeometry(engine), workingSet),
    blockTokens: engine.blockTokens,
  })
  const workload = workloadOf(options, plannedRequests(plan).length)
  const outcome = await runExperiment<ReuseStep, ReuseRun, ReuseRunEntry>(
    {
      ...{ plan, runs, trials, requiresValid },
      point: { qps: null, outputTokens, concurrency },
      entryOf: createReuseRunEntry,
      observationsOf: noiseObservations,
      barsOf: (entries, noiseFloor) => reuseBars(workload, entries, noiseFloor),
      checksOf: (entry) => counterChecks(entry, workload),
    },
    options,
    dependencies,
  )
  return { schema: 'kvferry.reuse/1', agent, workload, ...outcome }
}
