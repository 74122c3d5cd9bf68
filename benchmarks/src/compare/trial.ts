/**
 * One trial: a fresh cluster, the same phases every time (lone first request, warm-up, measured load,
 * burst, settling), and everything that was observed on the way. It measures; what the numbers mean is
 * computed later, from this record alone.
 */
import type { Clock } from '@kvferry/connector-api'
import type { EngineStats } from '@kvferry/reference-engine'
import { Pool } from 'undici'
import { cpuSecondsByPid } from '../lib/cpu-time.ts'
import { getJson } from '../lib/http.ts'
import type { Progress } from '../lib/progress.ts'
import { limits } from '../limits.ts'
import type { Cluster, ClusterEngine, ClusterSpec, StartCluster } from './cluster.ts'
import type { RequestRecord, SendContext } from './load-client.ts'
import { runOpenLoop, type OpenLoopResult } from './open-loop.ts'
import type { Phase, PlannedRequest } from './schedule.ts'

export interface EngineObservation {
  readonly role: ClusterEngine['role']
  /** Around the measured phase. */
  readonly before: EngineStats
  readonly after: EngineStats
  /** After the burst, once blocks were given back or the settling time was over. */
  readonly end: EngineStats
  /** CPU seconds of the engine's process in the measured phase; null when it has no process of its own. */
  readonly cpuSeconds: number | null
}

export interface Trial {
  readonly label: string
  /** What the engines call the model that they serve. */
  readonly model: string
  readonly startUpMs: number
  readonly records: readonly RequestRecord[]
  readonly measured: OpenLoopResult
  readonly burst: OpenLoopResult
  readonly engines: readonly EngineObservation[]
  /** Share of the machine used by the harness and its children in the measured phase. */
  readonly cpuBusy: number
}

export interface TrialContext {
  readonly clock: Clock
  readonly progress: Progress
  readonly signal: AbortSignal
  readonly startCluster: StartCluster
  readonly concurrencyMax: number
  readonly cores: number
  /** Of one request, send to last byte. Default: `limits.requestDeadlineMs`. */
  readonly requestDeadlineMs?: number
}

async function readStats(engine: ClusterEngine): Promise<EngineStats> {
  const { status, body } = await getJson(`${engine.url}/kvferry/v1/stats`)
  if (status !== 200) throw new Error(`${engine.url}/kvferry/v1/stats answered HTTP ${status}`)
  return body as EngineStats
}

const readAllStats = (cluster: Cluster): Promise<EngineStats[]> =>
  Promise.all(cluster.engines.map(readStats))

const heldBlocks = (stats: EngineStats): number =>
  stats.blocks.owned + stats.blocks.leased + stats.blocks.quarantined

/** Blocks come back when the reader's word arrives, shortly after the last answer. */
async function settledStats(cluster: Cluster, context: TrialContext): Promise<EngineStats[]> {
  const deadline = context.clock.now() + limits.settleTimeoutMs
  for (;;) {
    const stats = await readAllStats(cluster)
    if (stats.every((each) => heldBlocks(each) === 0) || context.clock.now() >= deadline)
      return stats
    await new Promise((resolve) => setTimeout(resolve, limits.pollIntervalMs))
  }
}

async function servedModel(entryUrl: string): Promise<string> {
  const { body } = await getJson(`${entryUrl}/v1/models`)
  const id = (body as { data?: { id?: unknown }[] } | null)?.data?.[0]?.id
  if (typeof id !== 'string') throw new Error(`${entryUrl}/v1/models names no model`)
  return id
}

async function measure(
  cluster: Cluster,
  spec: ClusterSpec,
  schedule: readonly PlannedRequest[],
  context: TrialContext,
): Promise<Omit<Trial, 'startUpMs'>> {
  const { clock, progress, concurrencyMax, cores } = context
  const label = spec.configuration?.label ?? 'oracle'
  const entry = new URL(cluster.entryUrl)
  const pool = new Pool(entry.origin, {
    connections: concurrencyMax,
    pipelining: 1,
    // The request's own deadline is the only one.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  const model = await servedModel(cluster.entryUrl)
  const send: SendContext = {
    pool,
    basePath: entry.pathname.replace(/\/+$/, ''),
    tokens: cluster.tokens,
    requestDeadlineMs: context.requestDeadlineMs ?? limits.requestDeadlineMs,
    model,
    idPrefix: `bench-${spec.name}`,
    clock,
    signal: context.signal,
  }
  const runPhase = (phase: Phase, title: string): Promise<OpenLoopResult> => {
    const requests = schedule.filter((planned) => planned.phase === phase)
    if (requests.length > 0) progress.phase(`${spec.name}: ${title}`, requests.length)
    return runOpenLoop({
      requests,
      concurrencyMax,
      context: send,
      onProgress: (done) => progress.tick(done),
    })
  }
  try {
    const first = await runPhase('first', 'first request')
    const warmUp = await runPhase('warm-up', 'warm-up')
    const pids = [process.pid, ...cluster.pids]
    const before = await readAllStats(cluster)
    const cpuBefore = cpuSecondsByPid(pids)
    const measured = await runPhase('measured', 'measured requests')
    const cpuAfter = cpuSecondsByPid(pids)
    const after = await readAllStats(cluster)
    const burst = await runPhase('burst', 'burst')
    progress.phase(`${spec.name}: settling`)
    const end = await settledStats(cluster, context)
    const cpuOf = (pid: number): number => (cpuAfter.get(pid) ?? 0) - (cpuBefore.get(pid) ?? 0)
    const cpuTotal = pids.reduce((sum, pid) => sum + cpuOf(pid), 0)
    const wallSeconds = (measured.endedAtMs - measured.startedAtMs) / 1_000
    return {
      label,
      model,
      records: [first, warmUp, measured, burst].flatMap((phase) => phase.records),
      measured,
      burst,
      cpuBusy: cpuTotal / (wallSeconds * cores),
      engines: cluster.engines.map(({ role, pid }, i) => ({
        role,
        before: before[i] as EngineStats,
        after: after[i] as EngineStats,
        end: end[i] as EngineStats,
        cpuSeconds: pid === null ? null : cpuOf(pid),
      })),
    }
  } finally {
    await pool.destroy()
  }
}

/**
 * @throws Error with the last log lines of the cluster when a part of it ended or did not come up, the
 *   signal's reason when interrupted. The cluster is closed in every case.
 */
export async function runTrial(
  spec: ClusterSpec,
  schedule: readonly PlannedRequest[],
  context: TrialContext,
): Promise<Trial> {
  const { clock, progress, signal } = context
  progress.phase(`${spec.name}: starting`)
  const startedAtMs = clock.now()
  const cluster = await context.startCluster(spec, signal)
  const startUpMs = clock.now() - startedAtMs
  // When a part of the cluster ends, the rest of the schedule must not go on against what is left.
  const ending = new AbortController()
  const workSignal = AbortSignal.any([signal, ending.signal])
  const work = measure(cluster, spec, schedule, { ...context, signal: workSignal })
  work.catch(() => {})
  try {
    return { startUpMs, ...(await Promise.race([work, cluster.failed])) }
  } catch (error) {
    if (!signal.aborted) progress.note(cluster.logTails())
    throw error
  } finally {
    ending.abort(new Error('the trial has ended'))
    await cluster.close()
  }
}
