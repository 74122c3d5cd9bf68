/**
 * `kvferry-bench micro --paths` as a function: the same blocks by descriptors and by slabs, between two
 * processes over real NIXL. Rounds of the two alternate, so that what the machine does meanwhile falls on
 * both; A-A is descriptors against descriptors. Every byte of both is looked at before it is timed.
 */
import { isNixlAvailable, nixlInfo } from '@kvferry/native-nixl'
import { createDistribution } from '../lib/distribution.ts'
import { readEnvironment } from '../lib/environment.ts'
import { silentProgress, type Progress } from '../lib/progress.ts'
import type { LineProcess } from './line-process.ts'
import { comparePairs, interleave, onlyReported, spreadOf } from './pair-statistics.ts'
import { Participants, sharedVariables } from './participants.ts'
import { paths } from './paths-settings.ts'
import type { MicroPathsResult, PathsCase } from './result.ts'

export interface MicroPathsOptions {
  /** Pairs of rounds of each case. Default 20. */
  readonly rounds?: number
  readonly progress?: Progress
  readonly signal?: AbortSignal
}

interface Point {
  readonly direction: 'read' | 'write'
  readonly blockSizeBytes: number
  readonly count: number
}

/** @throws ConnectorError ERR_NIXL_UNAVAILABLE; Error when a child fails, or a byte is wrong. */
export async function runMicroPaths(options: MicroPathsOptions = {}): Promise<MicroPathsResult> {
  const { rounds = paths.roundCount, progress = silentProgress } = options
  if (!Number.isInteger(rounds) || rounds < 1) throw new RangeError(`rounds: ${rounds}`)
  const signal = options.signal ?? new AbortController().signal
  const available = isNixlAvailable()
  if (!available.available) throw available.error
  const participants = new Participants({ libraryPath: available.path, bareLoop: '', signal })
  try {
    progress.phase('starting initiator and target')
    const { initiator } = await participants.side('paths', 'paths')
    const cases: PathsCase[] = []
    for (const point of points()) cases.push(await measure(initiator, point, rounds, progress))
    return assemble(cases, rounds, await initiator.request('transports'))
  } finally {
    await participants.stop()
  }
}

function points(): Point[] {
  return paths.directions.flatMap((direction) =>
    paths.totalsBytes.flatMap((total) =>
      paths.blockSizesBytes.map((blockSizeBytes) => ({
        ...{ direction, blockSizeBytes, count: total / blockSizeBytes },
      })),
    ),
  )
}

async function measure(
  initiator: LineProcess,
  { direction, blockSizeBytes, count }: Point,
  rounds: number,
  progress: Progress,
): Promise<PathsCase> {
  const label = `${direction}, ${count} × ${blockSizeBytes} B`
  const words = `${direction} ${blockSizeBytes} ${count}`
  progress.phase(label, 2 * rounds)
  for (const [index, path] of (['descriptors', 'slabs'] as const).entries()) {
    await initiator.request(`verify ${path} ${words} ${7 * count + index}`)
  }
  let done = 0
  const round = (path: string) => async (): Promise<number> => {
    const [ns] = await initiator.request(`round ${path} ${words}`)
    return Number(ns)
  }
  const compare = (a: string, b: string) =>
    interleave(round(a), round(b), {
      ...{ count: rounds, warmUpCount: paths.warmUpRoundCount },
      onPair: () => progress.tick(++done),
    })
  const same = comparePairs(await compare('descriptors', 'descriptors'))
  const pairs = await compare('descriptors', 'slabs')
  const { ratio, medianInterval } = comparePairs(pairs)
  return {
    kind: 'paths',
    ...{ label, direction, blockSizeBytes, blockCount: count, pairs: pairs.length },
    descriptorsUs: createDistribution(pairs.map(({ aNs }) => aNs / 1_000)),
    slabsUs: createDistribution(pairs.map(({ bNs }) => bNs / 1_000)),
    ratio,
    ratioMedianInterval: medianInterval,
    noise: { ratio: same.ratio, spread: spreadOf(same) },
    bytesVerified: true,
    bar: onlyReported('throughput by slabs over by descriptors, median of pairs', ratio.p50 ?? 0),
  }
}

function assemble(
  cases: readonly PathsCase[],
  rounds: number,
  transports: readonly string[],
): MicroPathsResult {
  const { nixlVersion, ucxVersion } = nixlInfo()
  const widest = cases.reduce((a, b) => (b.noise.spread > a.noise.spread ? b : a))
  const { sizeBytes, count } = paths.slabs
  return {
    schema: 'kvferry.micro/1',
    agent: 'nixl',
    environment: readEnvironment({
      ...{ seed: 0, nixl: nixlVersion, ucx: ucxVersion, transports, deviceTier: 'host memory' },
    }),
    workload: {
      rounds,
      slabs: { sizeBytes, countPerDirection: count },
      baseline: 'the same blocks by descriptors: every second one, in another order at each side',
      variables: sharedVariables,
    },
    noiseFloor: { method: 'a-a-pairs', label: widest.label, spread: widest.noise.spread },
    cases,
    verdict: { ok: true, failures: [] },
  }
}
