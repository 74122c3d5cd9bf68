/** The part `tiers`: scattered blocks of a GPU to page-locked host memory and back, as a history's tiers move them. */
import type { Progress } from '../lib/progress.ts'
import type { TierCase } from './result.ts'
import { gpus, toBytes } from './settings.ts'
import type { PairOfChildren } from './side.ts'
import { gigabytesPerSecond, median, rounded, splitHalfSpread } from './statistics.ts'

export async function measureTiers(
  pair: PairOfChildren,
  totalMibMax: number,
  progress: Progress,
): Promise<TierCase[]> {
  const totalBytes = toBytes(Math.min(gpus.barTotalMib, totalMibMax))
  const cases: TierCase[] = []
  for (const blockBytes of gpus.blockSizesBytes) {
    const blocks = { table: blockBytes, count: totalBytes / blockBytes }
    progress.phase(`tiers: ${blocks.count} blocks of ${blockBytes} B`)
    await pair.verifyTier(blocks)
    const us = { down: [] as number[], up: [] as number[] }
    for (let round = 0; round < gpus.tierRounds; round++) {
      for (const direction of ['down', 'up'] as const) {
        us[direction].push(await pair.tier(direction, blocks))
      }
    }
    for (const direction of ['down', 'up'] as const) {
      const each = median(us[direction])
      cases.push({
        ...{ direction, blockBytes, totalBytes, rounds: gpus.tierRounds, us: rounded(each) },
        spread: rounded(splitHalfSpread(us[direction])),
        gigabytesPerSecond: gigabytesPerSecond(totalBytes, each),
      })
    }
  }
  return cases
}
