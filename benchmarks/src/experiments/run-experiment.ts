/**
 * An experiment from its plan to what its result says in any case: the runs in turn, an entry of each, the noise
 * floor, bars and verdict. What an experiment measures and demands is its own.
 */
import type { CompareDependencies } from '../compare/compare.ts'
import type { Observations } from '../compare/noise-floor.ts'
import type { CompareResult, NoiseFloor, RunEntry } from '../compare/result.ts'
import type { RunContext } from '../compare/run-entry.ts'
import type { Environment } from '../lib/environment.ts'
import { unlessInvalid, type Bar } from './bar.ts'
import {
  environmentOf,
  experimentNoise,
  judgeExperiment,
  measureInTurn,
  type ExperimentRun,
  type Surroundings,
} from './experiment.ts'
import type { ExperimentPlan, ExperimentTrial } from './experiment-trial.ts'

export interface Experiment<Kind extends string, Run extends ExperimentRun, Entry> {
  readonly plan: ExperimentPlan<Kind>
  /** At least one. The first one is the one that A-A repeats. */
  readonly runs: readonly Run[]
  /** Each in fresh processes. */
  readonly trials: number
  readonly point: RunContext['point']
  /** A point outside the overrun guard, or a missed bar, fails instead of warning. */
  readonly requiresValid: boolean
  /** Of the trials of one run. */
  entryOf(run: Run, trials: readonly ExperimentTrial<Kind>[], context: RunContext): Entry
  /** What the noise floor is made of. */
  observationsOf(run: Run, trials: readonly ExperimentTrial<Kind>[]): Observations
  barsOf(entries: readonly Entry[], noiseFloor: NoiseFloor): readonly Bar[]
  /** What of an entry contradicts the experiment. */
  checksOf(entry: Entry): readonly string[]
}

export interface ExperimentOutcome<Entry> {
  readonly environment: Environment
  readonly noiseFloor: NoiseFloor
  readonly runs: readonly Entry[]
  readonly bars: readonly Bar[]
  readonly verdict: CompareResult['verdict']
}

/**
 * @throws RangeError without runs; Error when a cluster doesn't come up or a part of it ends; the signal's
 *   reason when interrupted. Failed requests, wrong bytes and wrong counters are in the verdict instead.
 */
export async function runExperiment<
  Kind extends string,
  Run extends ExperimentRun,
  Entry extends RunEntry,
>(
  experiment: Experiment<Kind, Run, Entry>,
  surroundings: Surroundings,
  dependencies: CompareDependencies,
): Promise<ExperimentOutcome<Entry>> {
  const { plan, runs, trials, point, requiresValid } = experiment
  const [first] = runs
  if (!first) throw new RangeError('nothing to run')
  const measured = await measureInTurn(runs, plan, trials, surroundings, dependencies)
  const { byConfiguration, again } = measured
  const { agent, prefixCaching } = surroundings
  const context: RunContext = { agent, prefixCaching, oracleTexts: null, point }
  const entries = runs.map((run, i) => experiment.entryOf(run, byConfiguration[i] ?? [], context))
  const noiseFloor = experimentNoise(
    first.label,
    [...(byConfiguration[0] ?? []), ...again].map((trial) =>
      experiment.observationsOf(first, [trial]),
    ),
  )
  // The A-A repeat is judged like the others: a wrong byte there is a wrong byte.
  const repeated = again.length > 0 ? [{ ...first, label: `${first.label} (again)` }] : []
  const judged = [...entries, ...repeated.map((run) => experiment.entryOf(run, again, context))]
  const bars = unlessInvalid([...experiment.barsOf(entries, noiseFloor)], entries)
  const contradictions = judged.flatMap((entry) => experiment.checksOf(entry))
  return {
    environment: environmentOf(surroundings, entries),
    noiseFloor,
    runs: entries,
    bars,
    verdict: judgeExperiment(judged, contradictions, bars, requiresValid),
  }
}
