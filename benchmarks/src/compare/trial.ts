/**
 * One trial: a fresh cluster, the same phases every time (lone first request, warm-up, measured load,
 * burst, settling), and everything that was observed on the way. It measures; what the numbers mean is
 * computed later, from this record alone.
 */
import type { EngineStats } from '@kvferry/reference-engine'
import type { ClusterSpec } from './cluster.ts'
import {
  inCluster,
  observeWindow,
  settledStats,
  type ClusterSession,
  type EngineObservation,
  type TrialContext,
} from './cluster-session.ts'
import type { RequestRecord } from './load-client.ts'
import { loopSeconds, type LoopResult } from './loop-result.ts'
import { runOpenLoop } from './open-loop.ts'
import type { Phase, PlannedRequest } from './schedule.ts'

export interface Trial {
  readonly label: string
  /** What the engines call the model that they serve. */
  readonly model: string
  readonly startUpMs: number
  readonly records: readonly RequestRecord[]
  readonly measured: LoopResult
  readonly burst: LoopResult
  readonly engines: readonly EngineObservation[]
  /** Share of the machine used by the harness and its children in the measured phase. */
  readonly cpuBusy: number
}

async function measure(
  session: ClusterSession,
  schedule: readonly PlannedRequest[],
): Promise<Omit<Trial, 'startUpMs'>> {
  const { spec, send, context } = session
  const { progress, concurrencyMax, cores } = context
  const runPhase = (phase: Phase, title: string): Promise<LoopResult> => {
    const requests = schedule.filter((planned) => planned.phase === phase)
    if (requests.length > 0) progress.phase(`${spec.name}: ${title}`, requests.length)
    return runOpenLoop({
      requests,
      concurrencyMax,
      context: send,
      onProgress: (done) => progress.tick(done),
    })
  }
  const first = await runPhase('first', 'first request')
  const warmUp = await runPhase('warm-up', 'warm-up')
  const window = await observeWindow(session, () => runPhase('measured', 'measured requests'))
  const measured = window.result
  const burst = await runPhase('burst', 'burst')
  progress.phase(`${spec.name}: settling`)
  const end = await settledStats(session)
  return {
    label: spec.configuration?.label ?? 'oracle',
    model: send.model,
    records: [first, warmUp, measured, burst].flatMap((phase) => phase.records),
    measured,
    burst,
    cpuBusy: window.cpuSeconds / (loopSeconds(measured) * cores),
    engines: window.engines.map((engine, i) => ({ ...engine, end: end[i] as EngineStats })),
  }
}

/** @throws as `inCluster` does. */
export const runTrial = (
  spec: ClusterSpec,
  schedule: readonly PlannedRequest[],
  context: TrialContext,
): Promise<Trial> => inCluster(spec, context, (session) => measure(session, schedule))
