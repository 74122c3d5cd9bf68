/** The paths' `micro` result on the screen: every number comes from the result object. Pure. */
import Table from 'cli-table3'
import type { MicroPathsResult, PathsCase } from './result.ts'

/** GB/s (10⁹) of one median round. */
function bandwidth({ blockSizeBytes, blockCount }: PathsCase, us: number | null): string {
  return us === null || us === 0 ? '–' : ((blockSizeBytes * blockCount) / us / 1_000).toFixed(2)
}

export function renderMicroPaths({ cases, workload, noiseFloor }: MicroPathsResult): string {
  const head = ['blocks', 'descriptors GB/s', 'slabs GB/s', 'ratio (95 %)', 'A-A', 'A-A spread']
  const table = new Table({ head, style: { head: [], border: [] } })
  for (const each of cases) {
    const [low, high] = each.ratioMedianInterval
    table.push([
      each.label,
      bandwidth(each, each.descriptorsUs.p50),
      bandwidth(each, each.slabsUs.p50),
      `${(each.ratio.p50 ?? 0).toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`,
      (each.noise.ratio.p50 ?? 0).toFixed(2),
      each.noise.spread.toFixed(2),
    ])
  }
  const { rounds, slabs } = workload
  const mebibytes = slabs.sizeBytes / 1_048_576
  return [
    `${rounds} pairs of rounds each; slabs of ${mebibytes} MiB, ${slabs.countPerDirection} for each direction; every byte verified`,
    table.toString(),
    `widest A-A spread: ${noiseFloor.spread.toFixed(2)} (${noiseFloor.label})`,
    '',
  ].join('\n')
}
