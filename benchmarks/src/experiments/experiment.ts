/**
 * What the experiments have in common: their configurations in turn, in fresh clusters, and the verdict over
 * the parts of a run that every command has.
 */
import type { ClusterSpec } from '../compare/cluster.ts'
import type { TrialContext } from '../compare/cluster-session.ts'
import type { CompareDependencies } from '../compare/compare.ts'
import type { Configuration } from '../compare/configuration.ts'
import { compareSets, compareTrials, halvesOf, type Observations } from '../compare/noise-floor.ts'
import type { EngineShape } from '../compare/presets.ts'
import type { CompareResult, NoiseFloor, RunEntry } from '../compare/result.ts'
import { runInTurn, type TrialsInTurn } from '../compare/trials-in-turn.ts'
import { createChecks, runChecks, verdictOf } from '../compare/verdict.ts'
import { readEnvironment, type Environment } from '../lib/environment.ts'
import { safeName } from '../lib/safe-name.ts'
import { limits } from '../limits.ts'
import type { Bar } from './bar.ts'
import {
  runExperimentTrial,
  type ExperimentPlan,
  type ExperimentTrial,
} from './experiment-trial.ts'

/** One column of an experiment. */
export interface ExperimentRun {
  readonly configuration: Configuration
  readonly label: string
  readonly shape: EngineShape
}

/** Of the engines; several where the runs differ. */
export const hooksOf = (runs: readonly ExperimentRun[]): string =>
  [...new Set(runs.map(({ configuration }) => configuration.hooks))].join(', ')

/** What the command found out about its surroundings. */
export interface Surroundings {
  readonly seed: number
  readonly agent: 'nixl' | 'memory'
  readonly prefixCaching: 'on' | 'off'
  readonly nixl: { readonly version: string | null; readonly ucxVersion: string | null } | null
  readonly deviceTier: string
}

export async function measureInTurn<Kind extends string>(
  runs: readonly ExperimentRun[],
  plan: ExperimentPlan<Kind>,
  trials: number,
  { prefixCaching }: Surroundings,
  dependencies: CompareDependencies,
): Promise<TrialsInTurn<ExperimentTrial<Kind>>> {
  const context: TrialContext = {
    ...dependencies,
    concurrencyMax: limits.concurrencyMax,
    requestDeadlineMs: limits.sweepRequestDeadlineMs,
  }
  const measured = await runInTurn(runs, trials, ({ configuration, shape }, name) => {
    const spec: ClusterSpec = {
      name: safeName(name),
      configuration,
      shape: { ...shape, hooks: configuration.hooks },
      prefixCaching,
    }
    return runExperimentTrial(spec, plan, context)
  })
  dependencies.progress.end()
  return measured
}

const percents = [50, 95] as const

/** Observations of each trial of one configuration; of one alone the odd against the even ones. */
export function experimentNoise(label: string, trials: readonly Observations[]): NoiseFloor {
  const [only, ...others] = trials
  if (only !== undefined && others.length === 0) {
    const [even, odd] = halvesOf(only)
    return { method: 'split-half', label, metrics: compareSets(even, odd, percents) }
  }
  return { method: 'repeated-run', label, metrics: compareTrials(trials, percents) }
}

export function environmentOf(
  { seed, nixl, deviceTier }: Surroundings,
  runs: readonly RunEntry[],
): Environment {
  return readEnvironment({
    seed,
    nixl: nixl?.version ?? null,
    ucx: nixl?.ucxVersion ?? null,
    transports: [...new Set(runs.flatMap((run) => run.transports))].sort(),
    // Without a GPU what stands for one beside the host tier is more of the same memory.
    deviceTier: deviceTier.includes('cuda') ? deviceTier : `a second arena of ${deviceTier}`,
  })
}

/** The same requests have the same texts, whatever moved or kept their KV. */
function differingTexts(runs: readonly RunEntry[]): string[] {
  const [first, ...others] = runs
  return others.flatMap((run) => {
    const { failures, check } = createChecks(run.label)
    check(
      run.outputDigest === first?.outputDigest,
      `texts differ from those of ${first?.label ?? 'nobody'}`,
    )
    return failures
  })
}

/** `more`: what else fails it in any case. */
export function judgeExperiment(
  runs: readonly RunEntry[],
  more: readonly string[],
  bars: readonly Bar[],
  requiresValid: boolean,
): CompareResult['verdict'] {
  const failures = [
    ...runs.flatMap((run) => runChecks(run, run.label)),
    ...differingTexts(runs),
    ...more,
  ]
  return verdictOf(runs, failures, bars, requiresValid)
}
