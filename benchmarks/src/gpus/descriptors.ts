/** The part `descriptors`: our agent against the bare loop, on the same descriptors, in turn. Bytes of both are looked at after it. */
import type { Progress } from '../lib/progress.ts'
import type { LineProcess } from '../micro/line-process.ts'
import { comparePairs, interleave, spreadOf } from '../micro/pair-statistics.ts'
import type { DescriptorsCase } from './result.ts'
import { gpus, toBytes } from './settings.ts'
import type { PairOfChildren } from './side.ts'
import { countWithin, gigabytesPerSecond, median, rounded } from './statistics.ts'

export interface BareSide {
  readonly initiator: LineProcess
  readonly target: LineProcess
}

export interface DescriptorsSides {
  readonly ours: PairOfChildren
  readonly bare: BareSide
  /** A second one: A-A. */
  readonly bareAgain: BareSide
}

type Direction = 'read' | 'write'
interface Point {
  readonly direction: Direction
  readonly blockBytes: number
  readonly count: number
}

async function bareNs({ initiator }: BareSide, { direction, blockBytes, count }: Point) {
  const [ns] = await initiator.request(`move ${direction} ${blockBytes} ${count}`)
  return Number(ns)
}

const seeds = { initiator: 3, target: 4 } as const

/** Patterns on both sides, so that every byte that moves, or should not have, is seen. */
export async function prepareBare({ initiator, target }: BareSide): Promise<void> {
  await initiator.request(`pattern ${seeds.initiator}`)
  await target.request(`pattern ${seeds.target}`)
  await target.request('watch')
}

async function verifyBare(side: BareSide, point: Point): Promise<void> {
  await prepareBare(side)
  await bareNs(side, point)
  const { direction, blockBytes, count } = point
  const isWrite = direction === 'write'
  const [own, other] = isWrite ? [seeds.target, seeds.initiator] : [seeds.initiator, seeds.target]
  const destination = isWrite ? side.target : side.initiator
  const where = isWrite ? 'remote' : 'local'
  await destination.request(`scattered ${where} ${blockBytes} ${count} ${own} ${other}`)
  await side.target.request('watch')
}

async function measure(
  sides: DescriptorsSides,
  point: Point,
  progress: Progress,
): Promise<DescriptorsCase> {
  const { direction, blockBytes, count } = point
  const totalBytes = blockBytes * count
  const order = { path: 'descriptors', direction, table: blockBytes, count } as const
  for (const side of [sides.bare, sides.bareAgain]) await verifyBare(side, point)
  const source = await sides.ours.fillSource(order)
  const { agentUs: firstUs } = await sides.ours.verifiedRound(order, source)
  const { min, max, warmUp } = gpus.pairs
  const pairCount = countWithin(gpus.pointBudgetMs, firstUs / 500, { min, max })
  const wallUs: number[] = []
  const ours = async () => {
    const round = await sides.ours.round(order)
    wallUs.push(round.wallUs)
    return round.agentUs * 1_000
  }
  const options = { count: pairCount, warmUpCount: warmUp, onPair: () => progress.tick(1) }
  const bare = () => bareNs(sides.bare, point)
  const same = comparePairs(await interleave(bare, () => bareNs(sides.bareAgain, point), options))
  const pairs = await interleave(bare, ours, options)
  const { ratio, medianInterval } = comparePairs(pairs)
  const oursUs = median(pairs.map(({ bNs }) => bNs / 1_000))
  return {
    ...{ direction, blockBytes, totalBytes, pairs: pairs.length },
    oursUs: rounded(oursUs),
    oursWallUs: rounded(median(wallUs.slice(warmUp))),
    bareUs: rounded(median(pairs.map(({ aNs }) => aNs / 1_000))),
    ratio: rounded(ratio.p50 ?? 0),
    ratioInterval: [rounded(medianInterval[0]), rounded(medianInterval[1])],
    spread: rounded(spreadOf(same)),
    gigabytesPerSecond: gigabytesPerSecond(totalBytes, oursUs),
  }
}

/** Small blocks, a layer's, all layers', and all as one block. */
export async function measureDescriptors(
  sides: DescriptorsSides,
  totalMibMax: number,
  progress: Progress,
): Promise<DescriptorsCase[]> {
  const totalBytes = toBytes(Math.min(gpus.barTotalMib, totalMibMax))
  const [small, , middle, , large] = gpus.blockSizesBytes
  const cases: DescriptorsCase[] = []
  for (const direction of gpus.directions) {
    for (const blockBytes of [small, middle, large, totalBytes]) {
      if (blockBytes > totalBytes) continue
      const point = { direction, blockBytes, count: totalBytes / blockBytes }
      progress.phase(`descriptors: ${direction}, ${point.count} × ${blockBytes} B`)
      cases.push(await measure(sides, point, progress))
    }
  }
  return cases
}
