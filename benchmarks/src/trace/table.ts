/** A trace result on the screen. Every number comes from the result object. Pure. */
import Table from 'cli-table3'
import type { TraceResult, TraceRun } from './result.ts'

const bytesPerGib = 2 ** 30

const three = (value: number): string => value.toFixed(3)
const gib = (bytes: number): string => (bytes / bytesPerGib).toFixed(bytes < bytesPerGib ? 3 : 0)

const columns: readonly (readonly [title: string, show: (run: TraceRun) => string])[] = [
  [
    'device + host',
    ({ capacity: { devicePercent, hostPercent } }) => `${devicePercent} % + ${hostPercent} %`,
  ],
  ['policy', (run) => run.label],
  ['hit ratio', (run) => three(run.hitRatio)],
  ['of device', (run) => three(run.deviceHitRatio)],
  ['GiB to device', (run) => gib(run.bytesWritten.device)],
  ['GiB to host', (run) => gib(run.bytesWritten.host)],
  ['host writes / block', (run) => three(run.hostWritesPerReference)],
  [
    'hits / GiB written',
    ({ hitsPerByteWritten: hits }) => (hits === null ? '–' : (hits * bytesPerGib).toFixed(1)),
  ],
]

export function renderTrace({ workload, runs }: TraceResult): string {
  const table = new Table({
    head: columns.map(([title]) => title),
    style: { head: [], border: [], compact: true },
  })
  table.push(...runs.map((run) => columns.map(([, show]) => show(run))))
  const { requests, blockReferences, uniqueBlocks, touchedOnceShare, hitRatioUnbounded } = workload
  const probation =
    workload.probationKeysMax === null
      ? 'up to twice both tiers’'
      : `up to ${workload.probationKeysMax}`
  const lines = [
    `${workload.file ?? 'synthetic trace'}: ${requests} requests in ${Math.round(workload.durationMs / 1_000)} s, ` +
      `${blockReferences} blocks of ${workload.blockTokens} tokens, ${uniqueBlocks} different, ` +
      `${(100 * touchedOnceShare).toFixed(1)} % of them once`,
    `An unbounded cache would hit ${three(hitRatioUnbounded)}. ${workload.blockBytes} bytes a block; ` +
      `${probation} keys in probation. Blocks are counted, not copied.`,
  ]
  return `${lines.join('\n')}\n${table.toString()}\n`
}
