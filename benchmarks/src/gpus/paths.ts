/**
 * The parts `paths` and `cost`: the same blocks by each path and by `auto`, in turn, once `auto` has measured. A path that can't be
 * the best any more isn't tried as often.
 */
import type { AgentPath } from '@kvferry/connector-api'
import type { Progress } from '../lib/progress.ts'
import type { Blocks, Round, RoundOrder } from './messages.ts'
import type { CostCase, GridCase, PathCase } from './result.ts'
import { gpus, toBytes } from './settings.ts'
import type { PairOfChildren } from './side.ts'
import { countWithin, gigabytesPerSecond, median, rounded, splitHalfSpread } from './statistics.ts'

type Contender = RoundOrder['path']
type Direction = RoundOrder['direction']

/** `auto` tries each path three times; a peer's first transfers of a kind are those. */
const trialsOfAuto = 3

async function inTurn(
  pair: PairOfChildren,
  blocks: Blocks & { readonly direction: Direction },
  roundCount: number | null,
): Promise<Map<Contender, Round[]>> {
  const contenders: Contender[] = [...pair.paths, 'auto']
  const source = await pair.fillSource(blocks)
  const firstUs = new Map<Contender, number>()
  for (const path of contenders) {
    await pair.verifiedRound({ ...blocks, path }, source)
    const { agentUs } = await pair.round({ ...blocks, path })
    firstUs.set(path, agentUs)
  }
  for (let at = 0; at < trialsOfAuto * pair.paths.length; at++) {
    await pair.round({ ...blocks, path: 'auto' })
  }
  const bestUs = Math.min(...pair.paths.map((path) => firstUs.get(path)!))
  const isHopeless = (path: Contender) =>
    path !== 'auto' && firstUs.get(path)! > gpus.hopeless.factor * bestUs
  const count = roundCount ?? countWithin(gpus.pointBudgetMs, (4 * bestUs) / 1_000, gpus.rounds)
  const rounds = new Map<Contender, Round[]>(contenders.map((path) => [path, []]))
  for (let at = 0; at < count; at++) {
    // Whoever comes first is another one each time.
    for (let turn = 0; turn < contenders.length; turn++) {
      const path = contenders[(at + turn) % contenders.length]!
      if (isHopeless(path) && at >= gpus.hopeless.rounds) continue
      rounds.get(path)!.push(await pair.round({ ...blocks, path }))
    }
  }
  return rounds
}

function caseOf(path: Contender, rounds: readonly Round[], totalBytes: number): PathCase {
  const medianOf = (read: (round: Round) => number) => rounded(median(rounds.map(read)))
  const us = medianOf(({ agentUs }) => agentUs)
  return {
    ...{ path, rounds: rounds.length, us },
    wallUs: medianOf(({ wallUs }) => wallUs),
    threadUs: medianOf(({ threadUs }) => threadUs),
    cpuUs: medianOf(({ cpuUs }) => cpuUs),
    spread: rounded(splitHalfSpread(rounds.map(({ agentUs }) => agentUs))),
    gigabytesPerSecond: gigabytesPerSecond(totalBytes, us),
    took: rounds.at(-1)!.path,
  }
}

const casesOf = (rounds: ReadonlyMap<Contender, readonly Round[]>, totalBytes: number) =>
  [...rounds].map(([path, each]) => caseOf(path, each, totalBytes))

export function gridCase(
  point: Pick<GridCase, 'direction' | 'blockBytes' | 'totalBytes'>,
  paths: readonly PathCase[],
): GridCase {
  const fixed = paths.filter(({ path }) => path !== 'auto')
  const best = fixed.reduce((least, each) => (each.us < least.us ? each : least))
  const auto = paths.find(({ path }) => path === 'auto')
  if (auto === undefined) throw new RangeError('auto was not measured')
  return {
    ...{ ...point, paths, best: best.path as AgentPath },
    autoExcess: rounded(auto.us / best.us - 1),
    autoAllowed: Math.max(gpus.bars.autoShareMax, best.spread),
  }
}

export async function measureGrid(
  pair: PairOfChildren,
  totalMibMax: number,
  progress: Progress,
): Promise<GridCase[]> {
  const cases: GridCase[] = []
  for (const direction of gpus.directions) {
    for (const mib of gpus.totalsMib.filter((total) => total <= totalMibMax)) {
      const totalBytes = toBytes(mib)
      for (const blockBytes of gpus.blockSizesBytes) {
        const count = totalBytes / blockBytes
        if (count < 2) continue
        progress.phase(`paths: ${direction}, ${mib} MiB in ${count} blocks`)
        const rounds = await inTurn(pair, { direction, table: blockBytes, count }, null)
        cases.push(gridCase({ direction, blockBytes, totalBytes }, casesOf(rounds, totalBytes)))
      }
    }
  }
  return cases
}

export async function measureCost(pair: PairOfChildren, progress: Progress): Promise<CostCase[]> {
  const { blockBytes, movedBlocks: count, regionCount } = gpus.kv
  const pieces = count * regionCount
  const totalBytes = pieces * blockBytes
  const cases: CostCase[] = []
  for (const direction of gpus.directions) {
    progress.phase(`cost: ${direction} of ${pieces} blocks of ${blockBytes} B`)
    const rounds = await inTurn(pair, { direction, table: 'kv', count }, gpus.costRounds)
    cases.push({ direction, pieces, totalBytes, paths: casesOf(rounds, totalBytes) })
  }
  return cases
}
