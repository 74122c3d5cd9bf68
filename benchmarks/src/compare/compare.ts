/**
 * The comparison: the oracle first, then every configuration on the same requests, trial by trial in
 * turn (A-B-A-B), each trial in a fresh cluster. Assembles the result; writes nothing.
 */
import type { Clock } from '@kvferry/connector-api'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { readEnvironment } from '../lib/environment.ts'
import type { Progress } from '../lib/progress.ts'
import { safeName } from '../lib/safe-name.ts'
import { compareBars } from './bars.ts'
import type { ClusterSpec, StartCluster } from './cluster.ts'
import type { TrialContext } from './cluster-session.ts'
import type { Configuration } from './configuration.ts'
import { repeatedRun, splitHalf } from './noise-floor.ts'
import type { Preset } from './presets.ts'
import { metricsOf, type RequestMetrics } from './request-metrics.ts'
import type { CompareResult, NoiseFloor, RunEntry, Workload } from './result.ts'
import { createRunEntry, isMetrics, type RunContext } from './run-entry.ts'
import { createSchedule, type PlannedRequest } from './schedule.ts'
import { runTrial, type Trial } from './trial.ts'
import { runInTurn, type TrialsInTurn } from './trials-in-turn.ts'
import { judge } from './verdict.ts'

export interface CompareOptions {
  readonly preset: Preset
  readonly seed: number
  /** At least one. */
  readonly configurations: readonly Configuration[]
  readonly agent: 'nixl' | 'memory'
  readonly prefixCaching: 'on' | 'off'
  /** Versions of the library that the agents run on; null with the in-memory agent. */
  readonly nixl: { readonly version: string | null; readonly ucxVersion: string | null } | null
  readonly deviceTier: string
}

export interface CompareDependencies {
  readonly clock: Clock
  readonly progress: Progress
  readonly signal: AbortSignal
  readonly startCluster: StartCluster
  readonly cores: number
}

const hooksOf = (configurations: readonly Configuration[]): string =>
  [...new Set(configurations.map((configuration) => configuration.hooks))].join(', ')

function workloadOf(options: CompareOptions, schedule: readonly PlannedRequest[]): Workload {
  const { preset } = options
  const measured = schedule.filter((planned) => planned.phase === 'measured')
  return {
    preset: preset.name,
    requests: preset.requestCount,
    warmUp: preset.warmUpCount,
    burst: preset.burstCount,
    trials: preset.trials,
    qps: preset.qps,
    concurrency: preset.concurrencyMax,
    promptTokens: measured.map((planned) => planned.prompt.length),
    outputTokens: preset.outputTokens,
    streamedShare: measured.filter((planned) => planned.isStream).length / measured.length,
    engine: { ...preset.engine, hooks: hooksOf(options.configurations) },
    prefixCaching: options.prefixCaching,
  }
}

const pooledMetrics = (trials: readonly Trial[]): RequestMetrics[] =>
  trials.flatMap((trial) => trial.measured.records.map(metricsOf).filter(isMetrics))

interface Measured extends TrialsInTurn<Trial> {
  readonly oracle: Trial
}

async function measureAll(
  options: CompareOptions,
  schedule: readonly PlannedRequest[],
  context: TrialContext,
): Promise<Measured> {
  const { preset, configurations, prefixCaching } = options
  const run = (configuration: Configuration | null, name: string): Promise<Trial> => {
    const spec: ClusterSpec = {
      name: safeName(name),
      configuration,
      shape: { ...preset.engine, hooks: configuration?.hooks ?? preset.engine.hooks },
      prefixCaching,
    }
    return runTrial(spec, schedule, context)
  }
  const oracle = await run(null, 'oracle')
  return { oracle, ...(await runInTurn(configurations, preset.trials, run)) }
}

function noiseFloorOf(
  label: string,
  trials: readonly Trial[],
  again: readonly Trial[],
): NoiseFloor {
  return again.length > 0
    ? repeatedRun(
        label,
        [...trials, ...again].map((trial) => pooledMetrics([trial])),
      )
    : splitHalf(label, pooledMetrics(trials))
}

/** The A-A repeat is judged like the others: a wrong byte there is a wrong byte. */
function judgedRuns(
  runs: readonly RunEntry[],
  options: CompareOptions,
  measured: Measured,
  context: RunContext,
): RunEntry[] {
  const [first] = options.configurations
  if (!first || measured.again.length === 0) return [...runs]
  const again = createRunEntry(
    { ...first, label: `${first.label} (again)` },
    measured.again,
    context,
  )
  return [...runs, again]
}

/**
 * @throws RangeError without configurations; Error when a cluster doesn't come up or a part of it ends;
 *   the signal's reason when interrupted. Failed requests and wrong bytes are in the verdict instead.
 */
export async function runCompare(
  options: CompareOptions,
  dependencies: CompareDependencies,
): Promise<CompareResult> {
  const { preset, configurations, seed } = options
  const [first] = configurations
  if (!first) throw new RangeError('nothing to compare')
  const schedule = createSchedule({
    ...preset,
    blockTokens: preset.engine.blockTokens,
    maxModelLen: preset.engine.maxModelLen,
    random: createSeededRandom(seed),
  })
  const measured = await measureAll(options, schedule, {
    ...dependencies,
    concurrencyMax: preset.concurrencyMax,
  })
  dependencies.progress.end()

  const { qps, outputTokens, concurrencyMax } = preset
  const point = { qps, outputTokens, concurrency: concurrencyMax }
  const context: RunContext = { ...options, point, oracleTexts: null }
  const withOracle: RunContext = {
    ...context,
    oracleTexts: measured.oracle.records.map((record) => record.text),
  }
  const runs = [
    createRunEntry(null, [measured.oracle], context),
    ...configurations.map((configuration, i) =>
      createRunEntry(configuration, measured.byConfiguration[i] ?? [], withOracle),
    ),
  ]
  const workload = workloadOf(options, schedule)
  const noise = noiseFloorOf(first.label, measured.byConfiguration[0] ?? [], measured.again)
  const { promptTokens } = workload
  const { agent } = options
  const bars = compareBars(runs, { agent, promptTokens, engine: preset.engine, noise })
  return {
    schema: 'kvferry.compare/1',
    agent: options.agent,
    environment: readEnvironment({
      seed,
      nixl: options.nixl?.version ?? null,
      ucx: options.nixl?.ucxVersion ?? null,
      transports: [...new Set(runs.flatMap((run) => run.transports))].sort(),
      deviceTier: options.deviceTier,
    }),
    workload,
    noiseFloor: noise,
    runs,
    bars,
    verdict: judge(judgedRuns(runs, options, measured, withOracle), bars, preset.requiresValid),
  }
}
