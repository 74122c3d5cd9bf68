/**
 * `doctor --rates`: what each path moves between two processes, on each pair of GPUs, or in host memory where there is no
 * GPU. Every point has a limit and the whole has one; processes whose transfer has no end are ended and started anew for
 * the points that are left. Reports what it found, and judges nothing but wrong bytes.
 */
import { fork, type ChildProcess } from 'node:child_process'
import type { AgentPath } from '@kvferry/connector-api'
import type { CudaInfo, GpuLink } from '../cuda.ts'
import type { RateMessage, RateSideName } from './rates-messages.ts'
import { planPoints, rateLimits, unmeasured, type RateResult } from './rates-plan.ts'

/** Kept of the children's output, for a failure. */
const outputSizeCharsMax = 2_048

export interface PairRates {
  /** Numbers of GPUs; null: host memory. Two processes may share one GPU. */
  readonly from: number | null
  readonly to: number | null
  /** Null on the host, and within one GPU. */
  readonly link: GpuLink | null
  readonly paths: readonly AgentPath[]
  readonly results: readonly RateResult[]
  /** Why nothing more could be measured; null where everything was. */
  readonly problem: string | null
}

export interface Rates {
  /** Of one transfer. */
  readonly totalBytes: number
  readonly pairs: readonly PairRates[]
}

export interface RatesOptions {
  /** Null: no GPU. */
  readonly cuda: CudaInfo | null
  readonly totalBytes: number
  readonly onPair?: (pair: PairRates) => void
  readonly signal?: AbortSignal
}

type Pair = Pick<PairRates, 'from' | 'to' | 'link'>

/** Each pair once: READ and WRITE are both of its ways. */
export function pairsOf(cuda: CudaInfo | null): Pair[] {
  const count = cuda?.gpus.length ?? 0
  if (cuda === null || count === 0) return [{ from: null, to: null, link: null }]
  if (count === 1) return [{ from: 0, to: 0, link: null }]
  return cuda.links.filter(({ from, to }) => from < to).map((link) => ({ ...link, link }))
}

/** Never rejects for what it finds, only when aborted. At most `rateLimits.totalMs`. */
export async function measureRates(options: RatesOptions): Promise<Rates> {
  const { cuda, totalBytes, onPair, signal } = options
  const endAt = performance.now() + rateLimits.totalMs
  const pairs: PairRates[] = []
  for (const pair of pairsOf(cuda)) {
    signal?.throwIfAborted()
    const measured = await measurePair(pair, totalBytes, endAt, signal)
    pairs.push(measured)
    onPair?.(measured)
  }
  return { totalBytes, pairs }
}

/** What is known of a pair so far. */
interface Progress {
  paths: readonly AgentPath[]
  readonly results: RateResult[]
}

async function measurePair(
  pair: Pair,
  totalBytes: number,
  endAt: number,
  signal?: AbortSignal,
): Promise<PairRates> {
  const progress: Progress = { paths: [], results: [] }
  let problem: string | null = null
  let isOver = false
  while (!isOver && problem === null) {
    const leftMs = endAt - performance.now()
    if (leftMs <= 0) problem = `the ${rateLimits.totalMs / 1_000} s for all of it were over`
    else {
      const outcome = await runSides(pair, totalBytes, leftMs, progress, signal)
      isOver = outcome === 'end'
      if (outcome !== 'end' && outcome !== 'stuck') problem = outcome.problem
    }
  }
  const left = planPoints(progress.paths).slice(progress.results.length)
  const skipped = left.map((point) => unmeasured(point, 'skipped', problem ?? ''))
  const { from, to, link } = pair
  const results = [...progress.results, ...skipped]
  return { from, to, link, paths: progress.paths, results, problem }
}

type SidesOutcome = 'end' | 'stuck' | { readonly problem: string }

async function runSides(
  { from, to }: Pair,
  totalBytes: number,
  leftMs: number,
  progress: Progress,
  signal?: AbortSignal,
): Promise<SidesOutcome> {
  const children: ChildProcess[] = []
  let output = ''
  const start = (side: RateSideName, device: number | null) => {
    const parameters = ['doctor-rates', side, String(device ?? 'host'), String(totalBytes)]
    const child = fork(process.argv[1]!, parameters, {
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    const keep = (chunk: Buffer) =>
      (output = (output + chunk.toString()).slice(-outputSizeCharsMax))
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    children.push(child)
    return child
  }
  try {
    const sides = { target: start('target', to), initiator: start('initiator', from) }
    const outcome = await follow(sides, leftMs, progress, signal)
    if (typeof outcome === 'string' || output === '') return outcome
    return { problem: `${outcome.problem}; output: ${output.trim()}` }
  } finally {
    await Promise.all(children.map(end))
  }
}

function follow(
  { target, initiator }: Readonly<Record<RateSideName, ChildProcess>>,
  leftMs: number,
  progress: Progress,
  signal?: AbortSignal,
): Promise<SidesOutcome> {
  return new Promise((resolve, reject) => {
    const settle = (outcome: SidesOutcome) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      resolve(outcome)
    }
    const timer = setTimeout(
      () => settle({ problem: `the ${rateLimits.totalMs / 1_000} s for all of it were over` }),
      leftMs,
    )
    const abort = () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    signal?.addEventListener('abort', abort, { once: true })
    const onMessage = (message: RateMessage) => {
      switch (message.kind) {
        case 'facts': {
          const { facts } = message
          initiator.send({ kind: 'order', facts, doneCount: progress.results.length })
          return
        }
        case 'ask':
          target.send(message)
          return
        case 'answer':
          initiator.send(message)
          return
        case 'paths':
          progress.paths = message.paths
          return
        case 'point':
          progress.results.push(message.result)
          if (message.isStuck) settle('stuck')
          return
        case 'end':
          return settle('end')
        case 'failed':
          return settle({ problem: message.reason })
        case 'order':
      }
    }
    for (const child of [target, initiator]) {
      child.on('message', onMessage)
      child.once('error', (error) => settle({ problem: error.message }))
      child.once('exit', (code, by) => settle({ problem: `a process ended early (${code ?? by})` }))
    }
  })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}
