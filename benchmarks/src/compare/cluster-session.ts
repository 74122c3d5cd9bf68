/**
 * A cluster for as long as one trial needs it: started, asked what it serves and how it is, closed in every
 * case. What is sent to it, and when, is the caller's.
 */
import type { Clock } from '@kvferry/connector-api'
import type { EngineStats } from '@kvferry/reference-engine'
import { Pool } from 'undici'
import { cpuSecondsByPid } from '../lib/cpu-time.ts'
import { getJson } from '../lib/http.ts'
import type { Progress } from '../lib/progress.ts'
import { limits } from '../limits.ts'
import type { Cluster, ClusterEngine, ClusterSpec, StartCluster } from './cluster.ts'
import type { SendContext } from './load-client.ts'

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

export interface EngineObservation {
  readonly role: ClusterEngine['role']
  /** Around the measured phase. */
  readonly before: EngineStats
  readonly after: EngineStats
  /** After everything, once blocks were given back or the settling time was over. */
  readonly end: EngineStats
  /** CPU seconds of the engine's process in the measured phase; null when it has no process of its own. */
  readonly cpuSeconds: number | null
}

export interface ClusterSession {
  readonly cluster: Cluster
  readonly spec: ClusterSpec
  readonly send: SendContext
  readonly context: TrialContext
}

async function readStats(engine: ClusterEngine): Promise<EngineStats> {
  const { status, body } = await getJson(`${engine.url}/kvferry/v1/stats`)
  if (status !== 200) throw new Error(`${engine.url}/kvferry/v1/stats answered HTTP ${status}`)
  return body as EngineStats
}

/** In the order of the cluster's engines. */
export const readAllStats = ({ engines }: Cluster): Promise<EngineStats[]> =>
  Promise.all(engines.map(readStats))

const heldBlocks = (stats: EngineStats): number =>
  stats.blocks.owned + stats.blocks.leased + stats.blocks.quarantined

/** Blocks come back when the reader's word arrives, shortly after the last answer. */
export async function settledStats({ cluster, context }: ClusterSession): Promise<EngineStats[]> {
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

export interface ObservedWindow<T> {
  readonly result: T
  /** In the order of the cluster's engines. */
  readonly engines: readonly Omit<EngineObservation, 'end'>[]
  /** CPU seconds of the harness and its children. */
  readonly cpuSeconds: number
}

/** Engines' statistics and everybody's CPU time around `work`: the measured part of a trial. */
export async function observeWindow<T>(
  { cluster }: ClusterSession,
  work: () => Promise<T>,
): Promise<ObservedWindow<T>> {
  const pids = [process.pid, ...cluster.pids]
  const before = await readAllStats(cluster)
  const cpuBefore = cpuSecondsByPid(pids)
  const result = await work()
  const cpuAfter = cpuSecondsByPid(pids)
  const after = await readAllStats(cluster)
  const cpuOf = (pid: number): number => (cpuAfter.get(pid) ?? 0) - (cpuBefore.get(pid) ?? 0)
  return {
    result,
    engines: cluster.engines.map(({ role, pid }, i) => ({
      role,
      before: before[i] as EngineStats,
      after: after[i] as EngineStats,
      cpuSeconds: pid === null ? null : cpuOf(pid),
    })),
    cpuSeconds: pids.reduce((sum, pid) => sum + cpuOf(pid), 0),
  }
}

async function openSession(
  cluster: Cluster,
  spec: ClusterSpec,
  context: TrialContext,
  pool: Pool,
): Promise<ClusterSession> {
  const send: SendContext = {
    pool,
    basePath: new URL(cluster.entryUrl).pathname.replace(/\/+$/, ''),
    tokens: cluster.tokens,
    requestDeadlineMs: context.requestDeadlineMs ?? limits.requestDeadlineMs,
    model: await servedModel(cluster.entryUrl),
    idPrefix: `bench-${spec.name}`,
    clock: context.clock,
    signal: context.signal,
  }
  return { cluster, spec, send, context }
}

async function workOn<T>(
  cluster: Cluster,
  spec: ClusterSpec,
  context: TrialContext,
  work: (session: ClusterSession) => Promise<T>,
): Promise<T> {
  const pool = new Pool(new URL(cluster.entryUrl).origin, {
    connections: context.concurrencyMax,
    pipelining: 1,
    // The request's own deadline is the only one.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  try {
    return await work(await openSession(cluster, spec, context, pool))
  } finally {
    await pool.destroy()
  }
}

/**
 * @throws Error with the last log lines of the cluster when a part of it ended or did not come up, the
 *   signal's reason when interrupted. The cluster is closed in every case.
 */
export async function inCluster<T extends object>(
  spec: ClusterSpec,
  context: TrialContext,
  work: (session: ClusterSession) => Promise<T>,
): Promise<T & { readonly startUpMs: number }> {
  const { clock, progress, signal } = context
  progress.phase(`${spec.name}: starting`)
  const startedAtMs = clock.now()
  const cluster = await context.startCluster(spec, signal)
  const startUpMs = clock.now() - startedAtMs
  // When a part of the cluster ends, the rest of the schedule must not go on against what is left.
  const ending = new AbortController()
  const workSignal = AbortSignal.any([signal, ending.signal])
  const done = workOn(cluster, spec, { ...context, signal: workSignal }, work)
  done.catch(() => {})
  try {
    return { startUpMs, ...(await Promise.race([done, cluster.failed])) }
  } catch (error) {
    if (!signal.aborted) progress.note(cluster.logTails())
    throw error
  } finally {
    ending.abort(new Error('the trial has ended'))
    await cluster.close()
  }
}
