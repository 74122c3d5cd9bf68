/** A `gpus` result on the screen: every number comes from the result object. Pure. */
import Table from 'cli-table3'
import { barText } from '../experiments/bar-table.ts'
import type { GpusResult, GridCase, PathCase } from './result.ts'

const sizeText = (bytes: number): string =>
  bytes >= 1_048_576 ? `${bytes / 1_048_576} MiB` : `${bytes / 1_024} KiB`

function tableOf(head: string[], rows: string[][]): string[] {
  if (rows.length === 0) return []
  const table = new Table({ head, style: { head: [], border: [], compact: true } })
  table.push(...rows)
  return [table.toString()]
}

function gridRow({ direction, totalBytes, blockBytes, paths, ...row }: GridCase): string[] {
  const rate = (path: PathCase['path']) => {
    const found = paths.find((each) => each.path === path)
    return found === undefined ? '–' : String(found.gigabytesPerSecond)
  }
  const { autoExcess, autoAllowed, best } = row
  const excess = `${(autoExcess * 100).toFixed(0)} %${autoExcess > autoAllowed ? ' OVER' : ''}`
  const rates = (['descriptors', 'slabs', 'ipc', 'auto'] as const).map(rate)
  return [direction, sizeText(totalBytes), sizeText(blockBytes), ...rates, best, excess]
}

export function renderGpus(result: GpusResult): string {
  const { devices, descriptors, paths, cost, tiers, bars, durationMs, verdict } = result
  return [
    `between ${devices.join(' and ')}, every destination verified; ${(durationMs / 1_000).toFixed(0)} s`,
    ...tableOf(
      ['descriptors', 'block', 'ours µs', 'bare µs', 'bare ÷ ours', 'A-A', 'GB/s'],
      descriptors.map((each) => [
        ...[each.direction, sizeText(each.blockBytes), String(each.oursUs), String(each.bareUs)],
        ...[each.ratio, each.spread, each.gigabytesPerSecond].map(String),
      ]),
    ),
    ...tableOf(
      ['GB/s', 'total', 'block', 'descriptors', 'slabs', 'ipc', 'auto', 'best', 'auto over best'],
      paths.map(gridRow),
    ),
    ...tableOf(
      ['a prompt’s KV', 'path', 'took', 'thread µs', 'until the callback µs', 'CPU µs', 'GB/s'],
      cost.flatMap(({ direction, paths: each }) =>
        each.map(({ path, took, threadUs, wallUs, cpuUs, gigabytesPerSecond }) => [
          ...[direction, path, took],
          ...[threadUs, wallUs, cpuUs, gigabytesPerSecond].map(String),
        ]),
      ),
    ),
    ...tableOf(
      ['tier', 'block', 'GB/s', 'A-A'],
      tiers.map(({ direction, blockBytes, gigabytesPerSecond, spread }) => [
        ...[direction, sizeText(blockBytes), String(gigabytesPerSecond), String(spread)],
      ]),
    ),
    barText(bars, 'no bars'),
    verdict.ok ? 'No bar was missed.' : 'Some bars were MISSED.',
    '',
  ].join('\n')
}
