/**
 * The HTML report of a sweep: the two published charts, what the connectors did beneath them, every point
 * with its validity, and the conditions. Every number comes from the result files.
 */
import type { RunEntry } from '../compare/result.ts'
import { percentText } from '../lib/percent-text.ts'
import { writeWhole } from '../lib/result-file.ts'
import type { PointFile } from '../sweep/point-file.ts'
import { pointName } from '../sweep/grid.ts'
import type { SweepVerdict } from '../sweep/verdict.ts'
import { conditionsTable } from './conditions-table.ts'
import { renderPage, type DataTable, type Panel } from './html-page.ts'
import { modesOf, readNumber, type ReportPoint, type Statistic } from './point-set.ts'
import { breakdownPanel as meansPanel } from './run-panels.ts'
import { metricChart, sweepLines } from './sweep-charts.ts'

interface Detail {
  readonly title: string
  readonly yTitle: string
  readonly note: string
  readonly read: (run: RunEntry) => number | null
}

/** Beneath the two charts; each is left out where no file has it. */
const details: readonly Detail[] = [
  {
    title: 'KV on the critical path',
    yTitle: 'ms, p50',
    note: 'criticalPathMs: modelled end of the prefill → load complete, known to D’s worker half.',
    read: (run) => run.criticalPathMs.p50,
  },
  {
    title: 'Wire',
    yTitle: 'ms, p50',
    note: 'wireMs: start of the post → final status.',
    read: (run) => run.wireMs.p50,
  },
  {
    title: 'Post',
    yTitle: 'µs, p50',
    note: 'postUs: the agent’s thread building and posting the transfer.',
    read: (run) => run.postUs.p50,
  },
  {
    title: 'KV wait on D',
    yTitle: 'ms, p50',
    note: 'kvWaitMs: D has blocks for the request → the last one is usable. Under push it spans the prefill.',
    read: (run) => run.kvWaitMs.p50,
  },
  {
    title: 'Connector hooks, decode engine',
    yTitle: 'µs per step, mean',
    note: 'hookUsPerStep.consumer: the engine thread inside connector hooks.',
    read: (run) => run.hookUsPerStep.consumer?.mean ?? null,
  },
  {
    title: 'Connector hooks, prefill engine',
    yTitle: 'µs per step, mean',
    note: 'hookUsPerStep.producer.',
    read: (run) => run.hookUsPerStep.producer?.mean ?? null,
  },
  {
    title: 'Blocks held, prefill engine',
    yTitle: 'blocks × seconds',
    note: 'blockSecondsHeld.producer, measured phase.',
    read: (run) => run.blockSecondsHeld.producer,
  },
  {
    title: 'Blocks held, decode engine',
    yTitle: 'blocks × seconds',
    note: 'blockSecondsHeld.consumer, measured phase.',
    read: (run) => run.blockSecondsHeld.consumer,
  },
]

const byOutputLength = (points: readonly ReportPoint[]): ReportPoint[][] =>
  [...new Set(points.map(({ point }) => point.outputTokens))].map((outputTokens) =>
    points.filter(({ point }) => point.outputTokens === outputTokens),
  )

function detailPanel(points: readonly ReportPoint[], detail: Detail): Panel[] {
  const { title, yTitle, note, read } = detail
  const readPoint = ({ extras }: ReportPoint): number | null =>
    extras?.run ? read(extras.run) : null
  if (points.every((point) => readPoint(point) === null)) return []
  return [{ title, note, svg: sweepLines(points, { title, yTitle }, readPoint, false) }]
}

/** At the longest input and the highest rate, where the differences are. */
function breakdownPanel(points: readonly ReportPoint[]): Panel[] {
  const inputTokens = Math.max(...points.map(({ point }) => point.inputTokens))
  const qps = Math.max(...points.map(({ point }) => point.qps))
  const runs = points.flatMap(({ point, extras }) => {
    const isShown = point.inputTokens === inputTokens && point.qps === qps && point.iteration === 1
    return isShown && extras?.run ? [extras.run] : []
  })
  if (runs.length === 0) return []
  const title = `Where TTFT went at ${inputTokens} tokens and ${qps}/s`
  return [meansPanel(runs, (run) => run.breakdown, title)]
}

function panelsOf(points: readonly ReportPoint[], statistic: Statistic): Panel[] {
  return byOutputLength(points).flatMap((group) => [
    { title: 'Time to first token', svg: metricChart(group, 'ttft', statistic) },
    { title: 'Time per output token', svg: metricChart(group, 'tpot', statistic) },
    ...breakdownPanel(group),
    ...details.flatMap((detail) => detailPanel(group, detail)),
  ])
}

const noiseText = ({ extras }: ReportPoint): string =>
  percentText(extras?.noiseFloor.metrics['ttftMs.p50']?.relativeDifference ?? null)

const guardTexts = { true: 'yes', false: 'NO', null: 'unknown' }

function pointsTable(points: readonly ReportPoint[]): DataTable {
  const fixed = (point: ReportPoint, field: string): string => readNumber(point, field).toFixed(2)
  return {
    title: 'Points',
    head: [
      ...['mode', 'in', 'out', 'qps', 'iteration', 'completed', 'TTFT mean', 'TTFT median'],
      ...['TTFT p99', 'TPOT mean', 'TPOT p99', 'noise floor of TTFT p50', 'inside overrun guard'],
    ],
    rows: points.map((each) => [
      each.mode,
      String(each.point.inputTokens),
      String(each.point.outputTokens),
      String(each.point.qps),
      String(each.point.iteration),
      String(each.file.completed),
      ...['mean_ttft_ms', 'median_ttft_ms', 'p99_ttft_ms', 'mean_tpot_ms', 'p99_tpot_ms'].map(
        (field) => fixed(each, field),
      ),
      noiseText(each),
      guardTexts[`${each.extras?.valid ?? null}`],
    ]),
  }
}

function conditionsOf(points: readonly ReportPoint[]): DataTable[] {
  const ours = points.flatMap(({ extras }) => (extras ? [extras] : []))
  const first = ours.find(({ conditions }) => conditions.engine !== null) ?? ours[0]
  if (!first) return []
  const { conditions } = first
  const runs = ours.flatMap(({ run }) => (run ? [run] : []))
  const unique = (values: readonly string[]): string => [...new Set(values)].join(', ') || '–'
  return [
    conditionsTable(conditions.environment, [
      ['load', `${conditions.requests} requests a run, ${conditions.warmUp} warm-up before them`],
      ['engine', conditions.engine ? JSON.stringify(conditions.engine) : 'servers given by URL'],
      ['hooks', unique(runs.map((run) => run.hooks))],
      ['agent', conditions.agent ?? '–'],
      ['prefix caching', conditions.prefixCaching],
      ['transports', unique(runs.flatMap((run) => run.transports))],
      ['servers', unique(ours.flatMap(({ url }) => (url === null ? [] : [url])))],
      ['seed', String(conditions.seed)],
    ]),
  ]
}

function invalidText(invalid: readonly ReportPoint[], count: number): string {
  const names = invalid.map(({ mode, point }) => pointName(mode, point)).join(', ')
  return `${invalid.length} of ${count} runs are outside the overrun guard (hollow in the charts): their times describe this machine. ${names}`
}

/** `verdict` is null when the files were only read. */
export function renderSweepReport(
  points: readonly ReportPoint[],
  verdict: SweepVerdict | null,
  statistic: Statistic,
): string {
  const invalid = points.filter(({ extras }) => extras?.valid === false)
  const isMemory = points.some(({ extras }) => extras?.run?.agent === 'memory')
  return renderPage({
    title: `KVFerry sweep: ${modesOf(points).join(', ')}`,
    lead: [
      ...(isMemory ? ['In-memory agent, no NIXL: this shows the protocol, not its speed.'] : []),
      `${points.length} runs. The same requests at the same moments for every mode; times count from the send.`,
    ],
    failures: verdict?.failures ?? [],
    warnings: invalid.length === 0 ? [] : [invalidText(invalid, points.length)],
    panels: panelsOf(points, statistic),
    tables: [pointsTable(points), ...conditionsOf(points)],
  })
}

export function toReportPoints(files: readonly PointFile[]): ReportPoint[] {
  return files.map((file) => {
    const { label, point } = file.kvferry
    const fileName = `${pointName(label, point)}.json`
    return { fileName, mode: label, point, file, extras: file.kvferry }
  })
}

export function writeSweepReport(
  target: string,
  points: readonly ReportPoint[],
  verdict: SweepVerdict | null,
  statistic: Statistic = 'mean',
): void {
  writeWhole(target, renderSweepReport(points, verdict, statistic))
}
