/** What the project claims of GPUs, against what was measured. Bars on links are judged between two GPUs only. Pure. */
import { atLeast, atMost, withoutVerdict, type Bar } from '../experiments/bar.ts'
import type { GpusParts, GridCase, PathCase } from './result.ts'
import { gpus, toBytes } from './settings.ts'

const { bars: limits } = gpus
const worstShown = 5

const sizeText = (bytes: number): string =>
  bytes >= 1_048_576 ? `${bytes / 1_048_576} MiB` : `${bytes / 1_024} KiB`

/** With the noise that stood beside it; only told, unless the rule gives way to it. */
const beside = (noise: number, each: Bar): Bar => ({ ...each, noise })

function descriptorBars(cases: GpusParts['descriptors']): Bar[] {
  return cases.flatMap((each) => {
    const { direction, blockBytes, totalBytes, ratio, spread } = each
    const isOneBlock = blockBytes === totalBytes
    const subject = `descriptors ${direction}, ${isOneBlock ? 'one block' : 'blocks'} of ${sizeText(blockBytes)}`
    const rule = `bare loop's time as a share of ours, at least ${limits.descriptorsRatioMin} less the A-A spread`
    const note = `${each.oursUs} µs in the agent’s thread (${each.oursWallUs} until the callback), bare ${each.bareUs} µs; A-A spread ${spread}`
    const judged = atLeast({ subject, rule, note }, ratio, limits.descriptorsRatioMin - spread)
    const share = beside(spread, judged)
    const against: Bar = spread > limits.spreadMax ? { ...share, verdict: 'too-noisy' } : share
    if (!isOneBlock || direction !== 'write') return [against]
    const rate = { subject, rule: 'GB/s', note: '' }
    const limit =
      totalBytes === toBytes(gpus.barTotalMib) ? limits.oneBlockGigabytesPerSecondMin : null
    return [against, beside(spread, atLeast(rate, each.gigabytesPerSecond, limit))]
  })
}

function rateBars(grid: GpusParts['paths']): Bar[] {
  const total = toBytes(gpus.barTotalMib)
  return (['slabs', 'ipc'] as const).flatMap((path) =>
    gpus.directions.flatMap((direction) => {
      const cells = grid
        .filter((each) => each.totalBytes === total && each.direction === direction)
        .flatMap(({ blockBytes, paths }) =>
          paths.filter((each) => each.path === path).map((each) => ({ blockBytes, each })),
        )
      if (cells.length === 0) return []
      const rates = cells.map(({ each }) => each.gigabytesPerSecond)
      const shown = cells.map(
        ({ blockBytes, each }) => `${sizeText(blockBytes)} ${each.gigabytesPerSecond}`,
      )
      const rule = `GB/s of ${sizeText(total)} at the slowest block size`
      const described = { subject: `${path} ${direction}`, rule, note: shown.join(', ') }
      const noise = Math.max(...cells.map(({ each }) => each.spread))
      return [
        beside(noise, atLeast(described, Math.min(...rates), limits.gigabytesPerSecondMin[path])),
      ]
    }),
  )
}

const isAutoGood = ({ autoExcess, autoAllowed }: GridCase) => autoExcess <= autoAllowed

function autoBars(grid: GpusParts['paths']): Bar[] {
  return gpus.directions.flatMap((direction) => {
    const cells = grid.filter((each) => each.direction === direction)
    if (cells.length === 0) return []
    const missed = cells.filter((each) => !isAutoGood(each))
    const worst = missed
      .sort((a, b) => b.autoExcess - a.autoExcess)
      .slice(0, worstShown)
      .map(
        ({ blockBytes, totalBytes, autoExcess, best, paths }) =>
          `${sizeText(blockBytes)} of ${sizeText(totalBytes)}: ${(autoExcess * 100).toFixed(0)} % over ${best} (took ${paths.find(({ path }) => path === 'auto')!.took})`,
      )
    const rule = `points of ${cells.length} where auto is more than 10 % (or the best path's A-A spread) slower than the best path`
    const note = worst.length === 0 ? 'at none' : worst.join('; ')
    return [atMost({ subject: `auto ${direction}`, rule, note }, missed.length, 0)]
  })
}

function costBars(cases: GpusParts['cost']): Bar[] {
  return cases.flatMap(({ direction, pieces, paths }) => {
    const auto = paths.find(({ path }) => path === 'auto')
    if (auto === undefined) return []
    const subject = `${pieces} blocks ${direction} by auto`
    const others = (read: (each: PathCase) => number) =>
      paths.map((each) => `${each.path} ${read(each)}`).join(', ')
    const thread = {
      subject,
      rule: 'µs of the engine’s thread',
      note: others((each) => each.threadUs),
    }
    const wall = { subject, rule: 'µs until the callback', note: others((each) => each.wallUs) }
    return [
      atMost(thread, auto.threadUs, limits.threadUsMax),
      atMost(wall, auto.wallUs, limits.wallUsMax),
    ].map((each) => beside(auto.spread, each))
  })
}

function tierBars(cases: GpusParts['tiers']): Bar[] {
  return cases
    .filter(({ blockBytes }) => blockBytes === limits.tierBlockBytes)
    .map(({ direction, blockBytes, gigabytesPerSecond, spread }) => {
      const subject = `tier copies ${direction}, blocks of ${sizeText(blockBytes)}`
      const described = { subject, rule: 'GB/s', note: `A-A spread ${spread}` }
      return beside(
        spread,
        atLeast(described, gigabytesPerSecond, limits.tierGigabytesPerSecondMin),
      )
    })
}

/** `isLinked`: between two GPUs; `isOnGpu`: the initiator's memory is one's. */
export function judgeGpus(
  parts: GpusParts,
  { isLinked, isOnGpu }: { readonly isLinked: boolean; readonly isOnGpu: boolean },
): Bar[] {
  const link = [
    ...descriptorBars(parts.descriptors),
    ...rateBars(parts.paths),
    ...autoBars(parts.paths),
    ...costBars(parts.cost),
  ]
  const tiers = tierBars(parts.tiers)
  return [
    ...(isLinked ? link : withoutVerdict(link, 'not between two GPUs')),
    ...(isOnGpu ? tiers : withoutVerdict(tiers, 'not on a GPU')),
  ]
}
