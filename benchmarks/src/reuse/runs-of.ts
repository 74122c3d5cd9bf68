/**
 * Which configurations an experiment runs: each connector as it was named, and the controls that go with it.
 * A connector has a history when it knows the options `gpuCacheBytes` and `hostBlockCount`. Pure.
 */
import type { Configuration } from '../compare/configuration.ts'
import type { EngineShape } from '../compare/presets.ts'
import type { ReuseGeometry } from './geometry.ts'
import type { WorkingSet } from './plan.ts'

export const budgetOption = 'gpuCacheBytes'
const hostOption = 'hostBlockCount'
/** By these a connector is known to have a history. */
export const historyOptions = [budgetOption, hostOption] as const

/**
 * `history`: what is measured. `no-history`: the same connector with a budget of 0. `baseline`: a connector
 * that has none, at the same engine capacity; `matched`: with as much device memory for KV as engine and
 * history together.
 */
export type ReuseRole = 'history' | 'no-history' | 'baseline' | 'matched'

export interface ReuseRun {
  readonly configuration: Configuration
  readonly label: string
  readonly role: ReuseRole
  readonly shape: EngineShape
}

export interface ReuseChoice {
  readonly configuration: Configuration
  /** Whether the connector knows `historyOptions`. */
  readonly hasHistory: boolean
}

export interface RunsOptions {
  readonly workingSet: WorkingSet
  readonly shape: EngineShape
  readonly geometry: ReuseGeometry
  /** Without controls only what was named runs. */
  readonly withControls: boolean
}

/** A label says what isn't the default; the budget is the experiment's own, not a choice of the user's. */
function withBudget(configuration: Configuration, bytes: number, suffix: string): Configuration {
  const { [budgetOption]: given, ...others } = configuration.options
  const label = configuration.label.replace(`-${budgetOption}=${String(given)}`, '')
  return {
    ...configuration,
    options: { ...others, [budgetOption]: bytes },
    label: label + suffix,
  }
}

/** One that is spelt out is taken as it is. */
function withHostTier(configuration: Configuration, blocks: number): Configuration {
  return { ...configuration, options: { [hostOption]: blocks, ...configuration.options } }
}

function withExperimentsBudget(
  configuration: Configuration,
  { workingSet, geometry }: RunsOptions,
): Configuration {
  if (workingSet === 'capacity-tier')
    return withBudget(configuration, geometry.tierBudgetBytes, '-tiny-budget')
  const budgeted = withBudget(configuration, geometry.historyBytes, '')
  return workingSet === 'hot' ? withHostTier(budgeted, geometry.hotHostBlocks) : budgeted
}

function historyRuns({ configuration }: ReuseChoice, options: RunsOptions): ReuseRun[] {
  const { shape, withControls } = options
  const run = (role: ReuseRole, chosen: Configuration): ReuseRun => ({
    configuration: chosen,
    label: chosen.label,
    role,
    shape,
  })
  const given = configuration.options[budgetOption]
  const off = run('no-history', withBudget(configuration, 0, '-no-history'))
  if (given === 0) return [off]
  const on = run(
    'history',
    typeof given === 'number' ? configuration : withExperimentsBudget(configuration, options),
  )
  return withControls ? [on, off] : [on]
}

function baselineRuns({ configuration }: ReuseChoice, options: RunsOptions): ReuseRun[] {
  const { workingSet, shape, geometry, withControls } = options
  const baseline: ReuseRun = {
    ...{ configuration, shape },
    label: configuration.label,
    role: 'baseline',
  }
  if (!withControls || workingSet !== 'hot') return [baseline]
  const label = `${configuration.label}-matched`
  const matched: ReuseRun = {
    configuration: { ...configuration, label },
    label,
    role: 'matched',
    shape: { ...shape, blockCount: geometry.matchedBlocks },
  }
  return [baseline, matched]
}

/** The first one is the one that A-A repeats: a baseline where there is one. */
export function reuseRuns(choices: readonly ReuseChoice[], options: RunsOptions): ReuseRun[] {
  const runs = choices.flatMap((choice) =>
    choice.hasHistory ? historyRuns(choice, options) : baselineRuns(choice, options),
  )
  const unique = runs.filter(({ label }, i) => runs.findIndex((run) => run.label === label) === i)
  return [
    ...unique.filter(({ role }) => role === 'baseline'),
    ...unique.filter(({ role }) => role !== 'baseline'),
  ]
}
