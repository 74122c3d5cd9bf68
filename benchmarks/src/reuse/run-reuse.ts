/**
 * The reuse experiment: documents that come back after the engines' caches dropped them, with a history and
 * with every control, on the same requests. Assembles the result; writes nothing.
 */
import type { CompareDependencies } from '../compare/compare.ts'
import type { Observations } from '../compare/noise-floor.ts'
import type { EngineShape } from '../compare/presets.ts'
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
import { reuseBars } from './bars.ts'
import { counterChecks } from './counter-checks.ts'
import { reuseGeometry } from './geometry.ts'
import { planReuse, type WorkingSet } from './plan.ts'
import { settlingCyclesOf, type ReusePreset } from './presets.ts'
import type { ReuseResult, ReuseWorkload } from './result.ts'
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

function workloadOf(options: ReuseOptions, first: ReuseRun, requests: number): ReuseWorkload {
  const { preset, engine, workingSet } = options
  const geometry = reuseGeometry(engine)
  const { documentTokens, tierDocumentTokens, historyBlocks } = geometry
  return {
    preset: preset.name,
    workingSet,
    requests,
    cycles: options.cycles,
    settlingCycles: workingSet === 'hot' ? settlingCyclesOf(preset, options.concurrency) : 0,
    trials: preset.trials,
    concurrency: options.concurrency,
    documentTokens: workingSet === 'capacity-tier' ? tierDocumentTokens : documentTokens,
    outputTokens: preset.outputTokens,
    historyBlocks,
    engine: { ...engine, hooks: first.configuration.hooks },
    prefixCaching: options.prefixCaching,
  }
}

/**
 * @throws RangeError without runs; Error when a cluster doesn't come up or a part of it ends; the signal's
 *   reason when interrupted. Failed requests, wrong bytes and wrong counters are in the verdict instead.
 */
export async function runReuse(
  options: ReuseOptions,
  dependencies: CompareDependencies,
): Promise<ReuseResult> {
  const { preset, engine, runs, agent, prefixCaching, concurrency, workingSet } = options
  const [first] = runs
  if (!first) throw new RangeError('nothing to run')
  const { outputTokens } = preset
  const { documentTokens, tierDocumentTokens } = reuseGeometry(engine)
  const plan = planReuse({
    ...{ workingSet, concurrency, outputTokens, seed: options.seed, cycles: options.cycles },
    settlingCycles: settlingCyclesOf(preset, concurrency),
    documentTokens: workingSet === 'capacity-tier' ? tierDocumentTokens : documentTokens,
    blockTokens: engine.blockTokens,
  })
  const measured = await measureInTurn(runs, plan, preset.trials, options, dependencies)
  const context: RunContext = {
    ...{ agent, prefixCaching, oracleTexts: null },
    point: { qps: null, outputTokens, concurrency },
  }
  const entries = runs.map((run, i) =>
    createReuseRunEntry(run, measured.byConfiguration[i] ?? [], context),
  )
  const { again } = measured
  const noiseFloor = experimentNoise(
    first.label,
    noiseObservations(first, measured.byConfiguration[0] ?? []),
    again.length > 0 ? noiseObservations(first, again) : null,
  )
  // The A-A repeat is judged like the others: a wrong byte there is a wrong byte.
  const repeated = again.length > 0 ? [{ ...first, label: `${first.label} (again)` }] : []
  const judged = [...entries, ...repeated.map((run) => createReuseRunEntry(run, again, context))]
  const workload = workloadOf(options, first, plannedRequests(plan).length)
  const bars = unlessInvalid(reuseBars(workload, entries, noiseFloor), entries)
  return {
    schema: 'kvferry.reuse/1',
    agent,
    environment: environmentOf(options, entries),
    workload,
    noiseFloor,
    runs: entries,
    bars,
    verdict: judgeExperiment(
      judged,
      judged.flatMap((run) => counterChecks(run, workload)),
      bars,
      preset.requiresValid,
    ),
  }
}
