/**
 * The HTML report of a comparison. Every number comes from the result, so the page says no more than the
 * file. Runs are drawn in their order, each in one colour throughout.
 */
import type { CompareResult, PerSide, RunEntry } from '../compare/result.ts'
import { headline, noBarsText, noiseText, resultSections, workloadText } from '../compare/table.ts'
import type { Distribution } from '../lib/distribution.ts'
import { writeWhole } from '../lib/result-file.ts'
import { conditionsTable } from './conditions-table.ts'
import { renderPage, type DataTable, type Panel } from './html-page.ts'
import { barTables, breakdownPanel, curvePanel, noiseTable } from './run-panels.ts'
import { barChart, colorOf, type BarSeries } from './svg-chart.ts'

/** p50 and p99 of one metric, one pair of bars a run. */
function quantilePanel(
  runs: readonly RunEntry[],
  read: (run: RunEntry) => Pick<Distribution, 'p50' | 'p99'> | null,
  text: { title: string; yTitle: string; note: string },
): Panel {
  const shown = runs.filter((run) => typeof read(run)?.p50 === 'number')
  const of = (key: 'p50' | 'p99'): (number | null)[] => shown.map((run) => read(run)?.[key] ?? null)
  const series: BarSeries[] = [
    { name: 'p50', color: colorOf(0), values: of('p50') },
    { name: 'p99', color: colorOf(1), values: of('p99') },
  ]
  const labels = shown.map((run) => run.label)
  return { title: text.title, svg: barChart(text, labels, series), note: text.note }
}

function sidesPanel(
  runs: readonly RunEntry[],
  read: (run: RunEntry) => PerSide<number>,
  text: { title: string; yTitle: string; note: string },
): Panel {
  const series: BarSeries[] = [
    { name: 'prefill engine', color: colorOf(0), values: runs.map((run) => read(run).producer) },
    { name: 'decode engine', color: colorOf(1), values: runs.map((run) => read(run).consumer) },
  ]
  const labels = runs.map((run) => run.label)
  return { title: text.title, svg: barChart(text, labels, series), note: text.note }
}

const median = (distribution: Distribution | null): number | null => distribution?.p50 ?? null

const streamed = 'Streamed requests of the measured phase, all trials.'

function panelsOf(result: CompareResult): Panel[] {
  const { runs } = result
  const moving = runs.filter((run) => run.label !== 'oracle')
  return [
    curvePanel(runs, (run) => run.ttftMs, { title: 'Time to first token', note: streamed }),
    curvePanel(runs, (run) => run.tpotMs, { title: 'Time per output token', note: streamed }),
    breakdownPanel(runs, (run) => run.breakdown, 'Where TTFT went'),
    quantilePanel(moving, (run) => run.criticalPathMs, {
      title: 'KV on the critical path',
      yTitle: 'ms',
      note: 'criticalPathMs: modelled end of the prefill → load complete, known to D’s worker half.',
    }),
    quantilePanel(moving, (run) => run.kvWaitMs, {
      title: 'KV wait on D',
      yTitle: 'ms',
      note: 'kvWaitMs: D has blocks for the request → the last one is usable. Under push it spans the prefill.',
    }),
    quantilePanel(moving, (run) => run.wireMs, {
      title: 'Wire',
      yTitle: 'ms',
      note: 'wireMs: start of the post → final status.',
    }),
    quantilePanel(moving, (run) => run.postUs, {
      title: 'Post',
      yTitle: 'µs',
      note: 'postUs: the agent’s thread building and posting the transfer.',
    }),
    sidesPanel(
      runs,
      ({ hookUsPerStep: { producer, consumer } }) => ({
        producer: median(producer),
        consumer: median(consumer),
      }),
      {
        title: 'Engine thread inside connector hooks',
        yTitle: 'µs per step, p50',
        note: 'hookUsPerStep.',
      },
    ),
    sidesPanel(moving, (run) => run.blockSecondsHeld, {
      title: 'Blocks held',
      yTitle: 'blocks × seconds',
      note: 'blockSecondsHeld in the measured phase.',
    }),
  ]
}

function conditionsOf(result: CompareResult): DataTable {
  const { workload, environment } = result
  return conditionsTable(environment, [
    ['load', workloadText(result)],
    ['engine', JSON.stringify(workload.engine)],
    ['prefix caching', workload.prefixCaching],
    ['transports', environment.transports.join(', ') || '–'],
    ['seed', String(environment.seed)],
  ])
}

export function renderCompareReport(result: CompareResult): string {
  const { verdict, runs } = result
  const labels = runs.map((run) => run.label).join(', ')
  return renderPage({
    title: `KVFerry comparison: ${labels}`,
    lead: [
      headline(result.agent, result.environment.nixl),
      workloadText(result),
      noiseText(result.noiseFloor),
      ...(result.bars.length === 0 ? [noBarsText] : []),
      ...(verdict.ok ? ['All checks passed: bytes verified, texts equal to the oracle’s.'] : []),
    ],
    failures: verdict.failures,
    warnings: verdict.warnings,
    panels: panelsOf(result),
    tables: [
      ...barTables(result.bars),
      ...resultSections(result).map((section) => ({
        ...section,
        head: ['', ...section.head],
      })),
      noiseTable(result.noiseFloor),
      conditionsOf(result),
    ],
  })
}

export const writeCompareReport = (target: string, result: CompareResult): void =>
  writeWhole(target, renderCompareReport(result))
