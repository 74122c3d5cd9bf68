/**
 * `kvferry-bench micro --agent` as a function: our agent against a bare loop over the C API, and what the
 * agent costs its process. Starts every process it needs and ends them all, on every way out.
 */
import { isNixlAvailable, nixlInfo } from '@kvferry/native-nixl'
import { readEnvironment } from '../lib/environment.ts'
import { silentProgress, type Progress } from '../lib/progress.ts'
import {
  measureCallback,
  measureCpu,
  measurePost,
  measureThroughput,
  verifySides,
  type ThroughputSides,
} from './cases.ts'
import { buildBareLoop, Participants, sharedVariables } from './participants.ts'
import { measurePython, skippedPython } from './python-case.ts'
import type {
  DistributionCase,
  MicroCase,
  MicroResult,
  PythonCase,
  ThroughputCase,
} from './result.ts'
import { micro } from './settings.ts'

export interface MicroAgentOptions {
  /** Interpreter with NIXL's Python bindings and numpy; without it that case is skipped. */
  readonly python?: string | undefined
  /** Per throughput case; the bar wants at least 200. Default 200. */
  readonly pairs?: number
  readonly progress?: Progress
  /** Ends the children and rejects with its reason. */
  readonly signal?: AbortSignal
}

/**
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE; Error when the baseline cannot be compiled, a child fails,
 *   or a byte is wrong.
 */
export async function runMicroAgent(options: MicroAgentOptions = {}): Promise<MicroResult> {
  const { pairs = micro.pairCount, progress = silentProgress } = options
  if (!Number.isInteger(pairs) || pairs < 1) throw new RangeError(`pairs: ${pairs}`)
  const signal = options.signal ?? new AbortController().signal
  const available = isNixlAvailable()
  if (!available.available) throw available.error
  progress.phase('compiling the baseline')
  const bareLoop = await buildBareLoop()
  const participants = new Participants({ libraryPath: available.path, bareLoop, signal })
  try {
    return await measure(participants, pairs, progress, options.python)
  } finally {
    await participants.stop()
  }
}

async function measure(
  participants: Participants,
  pairs: number,
  progress: Progress,
  interpreter: string | undefined,
): Promise<MicroResult> {
  // Alone on the machine: other processes' polling must not be in these.
  progress.phase('idle and polling cost')
  const idle = await participants.ours('idle')
  const cpuCases = await measureCpu(idle.process)
  await idle.process.stop()
  progress.phase('completion to callback')
  const callbackCase = await measureCallback(participants)
  await participants.stop()

  progress.phase('starting initiators and targets')
  const sides: ThroughputSides = {
    bare: await participants.side('bare', 'bare'),
    bareAgain: await participants.side('bare', 'bare-again'),
    ours: await participants.side('ours', 'ours'),
  }
  const throughputCases: ThroughputCase[] = []
  for (const sizeBytes of micro.sizesBytes) {
    for (const depth of micro.depths) {
      throughputCases.push(await measureThroughput(sides, { sizeBytes, depth, pairs }, progress))
    }
  }
  progress.phase('verifying bytes')
  await verifySides([sides.bare, sides.bareAgain, sides.ours], Math.max(...micro.depths))
  progress.phase('cost of posting')
  const [atWork, asleep] = await measurePost(sides.ours)
  const pythonCase = await comparePython(participants, interpreter, atWork, progress)
  const transports = await sides.ours.initiator.request('transports')
  return assemble(
    [...throughputCases, atWork, asleep, pythonCase, ...cpuCases, callbackCase],
    pairs,
    transports,
  )
}

async function comparePython(
  participants: Participants,
  interpreter: string | undefined,
  ours: DistributionCase,
  progress: Progress,
): Promise<PythonCase> {
  if (interpreter === undefined) return skippedPython('no --python PYTHON with the nixl package')
  progress.phase('cost of posting from Python')
  const python = await participants.python(interpreter)
  return measurePython(python.process, ours)
}

function assemble(
  cases: readonly MicroCase[],
  pairs: number,
  transports: readonly string[],
): MicroResult {
  const judged = cases.find(
    (each): each is ThroughputCase => each.kind === 'throughput' && each.bar.limit !== null,
  )
  if (judged === undefined) throw new Error('no case carries the throughput bar')
  const failures = cases
    .filter(({ bar }) => bar.verdict === 'fail' || bar.verdict === 'too-noisy')
    .map(({ label, bar }) =>
      bar.verdict === 'fail'
        ? `${label}: ${bar.value} (bar: ${bar.limit}; ${bar.rule})`
        : `${label}: the machine is too noisy to judge (A-A spread above ${micro.spreadMax})`,
    )
  const { nixlVersion, ucxVersion } = nixlInfo()
  return {
    schema: 'kvferry.micro/1',
    agent: 'nixl',
    environment: readEnvironment({
      seed: 0,
      nixl: nixlVersion,
      ucx: ucxVersion,
      transports,
      deviceTier: 'host memory',
    }),
    workload: {
      pairs,
      baseline: 'C++ loop over the C API: build lists, create, post, poll, release per transfer',
      memory: 'private, 2 MiB-aligned, MADV_HUGEPAGE, touched',
      variables: sharedVariables,
    },
    noiseFloor: { method: 'a-a-pairs', label: judged.label, spread: judged.noise.spread },
    cases,
    verdict: { ok: failures.length === 0, failures },
  }
}
