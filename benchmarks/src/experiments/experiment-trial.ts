/**
 * One trial of an experiment with steps: a fresh cluster, the lone first request, then step after step, each
 * with what the prefill engine's connector counted in it. Like `compare`'s trial it measures only.
 */
import type { EngineStats } from '@kvferry/reference-engine'
import { runClosedLoop } from '../compare/closed-loop.ts'
import type { ClusterSpec } from '../compare/cluster.ts'
import {
  inCluster,
  observeWindow,
  readAllStats,
  settledStats,
  type ClusterSession,
  type TrialContext,
} from '../compare/cluster-session.ts'
import { loopSeconds, type LoopResult } from '../compare/loop-result.ts'
import { runOpenLoop } from '../compare/open-loop.ts'
import type { PlannedRequest } from '../compare/schedule.ts'
import type { Trial } from '../compare/trial.ts'

/** What is known of a step before it runs. */
export interface StepPlan<Kind extends string> {
  readonly kind: Kind
  /** From 1; 0 for what comes before the cycles. */
  readonly cycle: number
  /** Callers that wait for their answers; null: each request at its planned moment. */
  readonly concurrency: number | null
  readonly requests: readonly PlannedRequest[]
  /** Streamed, all at once; the step's own requests begin when each of these has its first token. */
  readonly background?: readonly PlannedRequest[]
}

const allRequests = ({ background = [], requests }: StepPlan<string>): readonly PlannedRequest[] =>
  background.length === 0 ? requests : [...background, ...requests]

export interface ExperimentPlan<Kind extends string> {
  /** Pays for the handshake; in no number. */
  readonly first: PlannedRequest
  readonly steps: readonly StepPlan<Kind>[]
}

export type Counters = Readonly<Record<string, number>>

export interface ObservedStep<Kind extends string> extends Pick<
  StepPlan<Kind>,
  'kind' | 'cycle' | 'concurrency'
> {
  readonly result: LoopResult
  /** Growth of the prefill engine's connector's totals in this step. */
  readonly counters: Counters
}

export interface ExperimentTrial<Kind extends string> extends Trial {
  readonly steps: readonly ObservedStep<Kind>[]
}

export const plannedRequests = <Kind extends string>({
  first,
  steps,
}: ExperimentPlan<Kind>): PlannedRequest[] => [first, ...steps.flatMap(allRequests)]

async function producerCounters({ cluster }: ClusterSession): Promise<Counters> {
  const stats = await readAllStats(cluster)
  const at = cluster.engines.findIndex(({ role }) => role !== 'consumer')
  return stats[at]?.connectorCounters ?? {}
}

/** What P's connector counted over the whole life of its process. */
export const producerTotals = ({ engines }: Pick<Trial, 'engines'>): Counters =>
  engines.find(({ role }) => role !== 'consumer')?.end.connectorCounters ?? {}

const growthOf = (before: Counters, after: Counters): Counters =>
  Object.fromEntries(
    Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]),
  )

/** Several loops as one. */
function pooledLoop(results: readonly LoopResult[]): LoopResult {
  return {
    records: results.flatMap(({ records }) => records),
    startedAtMs: results[0]?.startedAtMs ?? 0,
    endedAtMs: Math.max(0, ...results.map(({ endedAtMs }) => endedAtMs)),
    peakConcurrency: Math.max(0, ...results.map(({ peakConcurrency }) => peakConcurrency)),
  }
}

function runLoop(
  { send, context }: ClusterSession,
  { requests, concurrency }: Pick<StepPlan<string>, 'requests' | 'concurrency'>,
  onProgress: (done: number) => void,
): Promise<LoopResult> {
  return concurrency === null
    ? runOpenLoop({
        ...{ requests, onProgress, context: send },
        concurrencyMax: context.concurrencyMax,
      })
    : runClosedLoop({ requests, concurrency, context: send, onProgress })
}

/** The background first. One that fails doesn't hold the rest up: it shows as a failed request. */
async function runStep(
  session: ClusterSession,
  step: StepPlan<string>,
  onProgress: (done: number) => void,
): Promise<LoopResult> {
  const { background = [] } = step
  if (background.length === 0) return runLoop(session, step, onProgress)
  let streaming = 0
  let onAllStreaming: () => void = () => {}
  const allStreaming = new Promise<void>((resolve) => (onAllStreaming = resolve))
  const behind = runClosedLoop({
    requests: background,
    concurrency: background.length,
    context: {
      ...session.send,
      onFirstToken: () => {
        if (++streaming === background.length) onAllStreaming()
      },
    },
  })
  await Promise.race([allStreaming, behind])
  const own = await runLoop(session, step, onProgress)
  const other = await behind
  const peakConcurrency = other.peakConcurrency + own.peakConcurrency
  return { ...pooledLoop([other, own]), peakConcurrency }
}

async function runSteps<Kind extends string>(
  session: ClusterSession,
  steps: readonly StepPlan<Kind>[],
): Promise<ObservedStep<Kind>[]> {
  const { progress } = session.context
  const total = steps.reduce((sum, step) => sum + allRequests(step).length, 0)
  progress.phase(`${session.spec.name}: measured requests`, total)
  const observed: ObservedStep<Kind>[] = []
  let before = await producerCounters(session)
  let ended = 0
  for (const step of steps) {
    const { kind, cycle, concurrency } = step
    const result = await runStep(session, step, (done) => progress.tick(ended + done))
    ended += allRequests(step).length
    const after = await producerCounters(session)
    observed.push({ kind, cycle, concurrency, result, counters: growthOf(before, after) })
    before = after
  }
  return observed
}

async function measure<Kind extends string>(
  session: ClusterSession,
  plan: ExperimentPlan<Kind>,
): Promise<Omit<ExperimentTrial<Kind>, 'startUpMs'>> {
  const { spec, send, context } = session
  context.progress.phase(`${spec.name}: first request`, 1)
  const first = await runLoop(session, { requests: [plan.first], concurrency: 1 }, () => {})
  const window = await observeWindow(session, () => runSteps(session, plan.steps))
  const steps = window.result
  context.progress.phase(`${spec.name}: settling`)
  const end = await settledStats(session)
  const measured = pooledLoop(steps.map(({ result }) => result))
  return {
    label: spec.configuration?.label ?? 'oracle',
    model: send.model,
    records: [...first.records, ...measured.records],
    measured,
    burst: pooledLoop([]),
    cpuBusy: window.cpuSeconds / (loopSeconds(measured) * context.cores),
    engines: window.engines.map((engine, i) => ({ ...engine, end: end[i] as EngineStats })),
    steps,
  }
}

/** @throws as `inCluster` does. */
export const runExperimentTrial = <Kind extends string>(
  spec: ClusterSpec,
  plan: ExperimentPlan<Kind>,
  context: TrialContext,
): Promise<ExperimentTrial<Kind>> => inCluster(spec, context, (session) => measure(session, plan))
