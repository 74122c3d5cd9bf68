/**
 * `kvferry-bench micro --router` as a function: what the router adds to each token of many streams, against
 * a direct connection to the same engine, in turn. Starts the engines and the router, each in a process of
 * its own, and ends them on every way out.
 */
import { setMaxListeners } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Agent } from 'undici'
import { createChildGroup, type ChildGroup } from '../lib/child-group.ts'
import { processCpuSeconds } from '../lib/cpu-time.ts'
import { readEnvironment } from '../lib/environment.ts'
import { getJson } from '../lib/http.ts'
import { silentProgress, type Progress } from '../lib/progress.ts'
import { limits } from '../limits.ts'
import { onlyReported } from './pair-statistics.ts'
import type { CpuCase, MicroRouterResult } from './result.ts'
import { runWindow, type Window } from './router-load.ts'
import { routerCases, type Round } from './router-statistics.ts'
import { micro } from './settings.ts'

export interface MicroRouterOptions {
  /** Of three windows each. Default 12. */
  readonly rounds?: number
  readonly progress?: Progress
  /** Ends the children and rejects with its reason. */
  readonly signal?: AbortSignal
}

interface Processes {
  readonly decodeUrl: string
  readonly routerUrl: string
  readonly routerPid: number
}

const rootOf = (name: string): string =>
  dirname(createRequire(import.meta.url).resolve(`${name}/package.json`))

async function startProcesses(group: ChildGroup): Promise<Processes> {
  const engines = await group.start({
    name: 'engines',
    script: join(rootOf('@kvferry/benchmarks'), 'dist', 'micro-router-engines.js'),
    args: [],
  })
  const decodeUrl = engines.ready.url
  const flags = ['--prefill', String(engines.ready['prefillUrl']), '--decode', decodeUrl]
  const router = await group.start({
    name: 'router',
    script: join(rootOf('@kvferry/router'), 'bin', 'kvferry-router.mjs'),
    args: ['--port=0', '--stop-on-stdin-end', ...flags],
  })
  const routerUrl = router.ready.url
  const ready = await getJson(`${routerUrl}/ready`)
  if (ready.status !== 200)
    throw new Error(`the router is not ready: ${JSON.stringify(ready.body)}`)
  return { decodeUrl, routerUrl, routerPid: router.pid }
}

/** Each place in a round is each side's equally often. */
const orders: readonly (readonly (keyof Round)[])[] = [
  ['direct', 'routed', 'directAgain'],
  ['directAgain', 'direct', 'routed'],
  ['routed', 'directAgain', 'direct'],
]

/** Windows in turn, after `warmUpRoundCount` rounds that do not count. */
export async function runRounds(
  window: (url: string) => Promise<Window>,
  { decodeUrl, routerUrl }: Pick<Processes, 'decodeUrl' | 'routerUrl'>,
  options: {
    readonly count: number
    readonly warmUpRoundCount: number
    readonly onRound: (done: number) => void
  },
): Promise<Round[]> {
  const rounds: Round[] = []
  for (let i = -options.warmUpRoundCount; i < options.count; i++) {
    const order = orders[Math.abs(i) % orders.length] ?? []
    const round: Partial<Record<keyof Round, Window>> = {}
    for (const side of order) round[side] = await window(side === 'routed' ? routerUrl : decodeUrl)
    if (i < 0) continue
    rounds.push(round as Round)
    options.onRound(rounds.length)
  }
  return rounds
}

async function measure(
  processes: Processes,
  count: number,
  progress: Progress,
  signal: AbortSignal,
): Promise<MicroRouterResult> {
  const { streamCount, startsApartMs, tokensPerStream, warmUpRoundCount, bar } = micro.router
  const deadlineMs = limits.requestDeadlineMs
  const deadlines = { headersTimeout: deadlineMs, bodyTimeout: deadlineMs }
  const dispatcher = new Agent({ connections: streamCount, pipelining: 1, ...deadlines })
  progress.phase(`${streamCount} streams, direct and through the router in turn`, count)
  const [startedAt, cpuBefore] = [performance.now(), processCpuSeconds(processes.routerPid)]
  try {
    const shape = { streamCount, startsApartMs, tokenCount: tokensPerStream }
    const window = (url: string) => runWindow(url, { ...shape, dispatcher, signal })
    const onRound = (done: number) => progress.tick(done)
    const rounds = await runRounds(window, processes, { count, warmUpRoundCount, onRound })
    const durationMs = performance.now() - startedAt
    const cpuSeconds = (processCpuSeconds(processes.routerPid) ?? NaN) - (cpuBefore ?? NaN)
    const cases = routerCases(rounds, bar)
    // One window in three is the router's.
    return assemble(cases, routerCpu(cpuSeconds * 1_000, durationMs / 3))
  } finally {
    await dispatcher.destroy()
  }
}

function routerCpu(cpuMs: number, durationMs: number): CpuCase {
  const share = cpuMs / durationMs
  const bar = onlyReported('share of a core', share)
  return { kind: 'router-cpu', label: 'router under this load', durationMs, share, bar }
}

export function assemble(
  [tokens, first]: ReturnType<typeof routerCases>,
  cpu: CpuCase,
): MicroRouterResult {
  const { streamCount, tokensPerStream, intervalMs, bar: bounds } = micro.router
  const failures = [tokens, first, cpu].flatMap(({ label, bar }) => {
    const spread = `the machine is too noisy to judge (A-A spread above ${bounds.spreadUsMax} µs)`
    if (bar.verdict === 'too-noisy') return [`${label}: ${spread}`]
    return bar.verdict === 'fail' ? [`${label}: ${bar.value} (bar: ${bar.limit}; ${bar.rule})`] : []
  })
  const deviceTier = 'none: engines that only write tokens'
  return {
    schema: 'kvferry.micro/1',
    agent: 'none',
    environment: readEnvironment({ seed: 0, nixl: null, ucx: null, transports: [], deviceTier }),
    workload: {
      rounds: tokens.rounds,
      streams: streamCount,
      tokensPerStream,
      tokensPerS: (streamCount * 1_000) / intervalMs,
      baseline: 'the same client connected to the decode engine itself',
    },
    noiseFloor: {
      method: 'a-a-pairs',
      label: tokens.label,
      spread: tokens.noise.spreadUs,
      unit: 'us',
    },
    cases: [tokens, first, cpu],
    verdict: { ok: failures.length === 0, failures },
  }
}

/** @throws Error when a child or a stream fails; the signal's reason. */
export async function runMicroRouter(options: MicroRouterOptions = {}): Promise<MicroRouterResult> {
  const { rounds = micro.router.roundCount, progress = silentProgress } = options
  if (!Number.isInteger(rounds) || rounds < 1) throw new RangeError(`rounds: ${rounds}`)
  const { signal } = options
  const group = createChildGroup()
  const ending = new AbortController()
  // Every stream listens to it.
  setMaxListeners(micro.router.streamCount, ending.signal)
  const onAbort = (): void => {
    ending.abort(signal?.reason)
    void group.stop()
  }
  signal?.addEventListener('abort', onAbort, { once: true })
  try {
    signal?.throwIfAborted()
    progress.phase('starting engines and router')
    const processes = await startProcesses(group)
    return await Promise.race([measure(processes, rounds, progress, ending.signal), group.failed])
  } finally {
    signal?.removeEventListener('abort', onAbort)
    await group.stop()
  }
}
