/**
 * A sweep at a glance: what `--json` writes and the table on the screen. One row a run, in the order of the
 * grid. Pure.
 */
import Table from 'cli-table3'
import { barText } from '../experiments/bar-table.ts'
import type { Bar } from '../experiments/bar.ts'
import { besideInlinePull, publishedPushText, type BesideInlinePull } from './beside-inline-pull.ts'
import type { SweepConditions } from './conditions.ts'
import type { GridPoint } from './grid.ts'
import { pointKey, pointName } from './grid.ts'
import type { PointFile } from './point-file.ts'
import { timePartsOf, type TimeParts } from './time-parts.ts'
import type { SweepVerdict } from './verdict.ts'

export interface SweepSummary {
  readonly schema: 'kvferry.sweep-summary/1'
  readonly resultsDirectory: string
  /** Engine, load and machine, the same for all points of engines; null where there is none. */
  readonly conditions: SweepConditions | null
  readonly points: readonly {
    readonly file: string
    readonly label: string
    readonly point: GridPoint
    readonly valid: boolean | null
    readonly completed: number
    readonly failed: number
    readonly medianTtftMs: number
    readonly p99TtftMs: number
    readonly medianTpotMs: number
    readonly outputTokensPerS: number
    /** Null for a server given by URL. */
    readonly parts: TimeParts | null
  }[]
  readonly besideInlinePull: readonly BesideInlinePull[]
  /** Of a preset that stands for a measurement: how near it comes. */
  readonly bars: readonly Bar[]
  readonly verdict: SweepVerdict
}

export function summaryOf(
  resultsDirectory: string,
  files: readonly PointFile[],
  verdict: SweepVerdict,
  bars: readonly Bar[] = [],
): SweepSummary {
  return {
    schema: 'kvferry.sweep-summary/1',
    resultsDirectory,
    conditions: files[0]?.kvferry.conditions ?? null,
    points: files.map((file) => ({
      file: `${pointName(file.kvferry.label, file.kvferry.point)}.json`,
      label: file.kvferry.label,
      point: file.kvferry.point,
      valid: file.kvferry.valid,
      completed: file.completed,
      failed: Number(file['failed']),
      medianTtftMs: Number(file['median_ttft_ms']),
      p99TtftMs: Number(file['p99_ttft_ms']),
      medianTpotMs: Number(file['median_tpot_ms']),
      outputTokensPerS: Number(file['output_throughput']),
      parts: file.kvferry.run === null ? null : timePartsOf(file.kvferry.run),
    })),
    besideInlinePull: besideInlinePull(files),
    bars,
    verdict,
  }
}

/** Points that lie beside an inline pull; the published one is named where it is among them. */
function besideText(all: readonly BesideInlinePull[]): string[] {
  const { inputTokens, qps, ttftRatio, tpotSaved } = publishedPushText
  const percent = (share: number) => `${(share * 100).toFixed(0)} %`
  return all.flatMap(({ label, point, ttftRatio: ratio, tpotSaved: saved }) => {
    if (ratio === null || saved === null) return []
    const isPublished = point.inputTokens === inputTokens && point.qps === qps
    const text = isPublished ? ` (text: ${ttftRatio}, ${percent(tpotSaved)})` : ''
    return [
      `${label}, ${pointKey(point)}: inline pull's mean TTFT is ${ratio.toFixed(2)} times as long, TPOT ${percent(saved)} less${text}`,
    ]
  })
}

const guardWord = { true: 'yes', false: 'NO', null: '–' }

const blockedText = (parts: TimeParts | null): string =>
  parts === null || parts.blockedUs === null ? '–' : (parts.blockedUs / 1_000).toFixed(2)

export function renderSummary(summary: SweepSummary): string {
  const table = new Table({
    head: [
      ...['in', 'out', 'qps', 'iter', 'label', 'TTFT p50 / p99 ms', 'TPOT ms'],
      ...['KV path ms', 'D blocked ms', 'in guard'],
    ],
    style: { head: [], border: [], compact: true },
  })
  for (const each of summary.points) {
    const { point } = each
    table.push([
      String(point.inputTokens),
      String(point.outputTokens),
      String(point.qps),
      String(point.iteration),
      each.label,
      `${each.medianTtftMs.toFixed(1)} / ${each.p99TtftMs.toFixed(1)}`,
      each.medianTpotMs.toFixed(2),
      each.parts?.criticalPathMs?.toFixed(1) ?? '–',
      blockedText(each.parts),
      guardWord[`${each.valid}`],
    ])
  }
  const { ok, failures, invalid } = summary.verdict
  const { bars } = summary
  const isMissed = bars.some(({ verdict }) => verdict === 'missed')
  const lines = [
    table.toString(),
    ...besideText(summary.besideInlinePull),
    ...(bars.length > 0 ? [barText(bars, '')] : []),
    `${summary.points.length} result files in ${summary.resultsDirectory}`,
    ...(invalid.length > 0
      ? [`${invalid.length} outside the overrun guard: their times describe this machine`]
      : []),
    ...failures.map((text) => `FAILED: ${text}`),
    ok ? 'All checks passed.' : 'Some checks FAILED.',
    ...(isMissed ? ['Some bars were MISSED.'] : []),
  ]
  return `${lines.join('\n')}\n`
}
