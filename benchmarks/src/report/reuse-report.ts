/**
 * The HTML report of a reuse experiment. Every number comes from the result, so the page says no more than the
 * file.
 */
import { headline, noiseLine } from '../compare/table.ts'
import { writeWhole } from '../lib/result-file.ts'
import { publishedReuse } from '../reuse/published.ts'
import type { ReuseResult } from '../reuse/result.ts'
import { noHistoryText, reuseSections, reuseWorkloadText } from '../reuse/table.ts'
import { conditionsTable } from './conditions-table.ts'
import { renderPage, type DataTable, type Panel } from './html-page.ts'
import { barTables, curvePanel, noiseTable, statisticsPanel } from './run-panels.ts'
import { colorOf, lineChart } from './svg-chart.ts'

function cyclePanel({ runs }: ReuseResult): Panel {
  const title = 'Revisits by cycle'
  const cycles = runs[0]?.cycles.map(({ cycle }) => cycle) ?? []
  const series = runs.map((run, index) => ({
    name: run.label,
    color: colorOf(index),
    dash: 'solid' as const,
    symbol: 'circle' as const,
    points: cycles.map((cycle) => {
      const value = run.cycles.find((each) => each.cycle === cycle)?.revisitTtftMs.p50 ?? null
      return value === null ? null : { value, isHollow: !run.valid }
    }),
  }))
  const text = { title, xTitle: 'cycle', yTitle: 'ms, p50' }
  return {
    title,
    svg: lineChart(text, cycles.map(String), series),
    note: 'Time to first token of the revisits, all trials; hollow = outside the overrun guard.',
  }
}

function panelsOf(result: ReuseResult): Panel[] {
  const { runs } = result
  const hasImmediate = runs.some(({ immediateTtftMs }) => immediateTtftMs.count > 0)
  const immediate = statisticsPanel(runs, (run) => run.immediateTtftMs, {
    title: 'Immediate repeats: time to first token',
    note: 'The engines’ own prefix caches still have the document.',
  })
  return [
    statisticsPanel(runs, (run) => run.revisitTtftMs, {
      title: 'Revisits: time to first token',
      note: 'The engines have dropped the document; a history may have kept it.',
    }),
    curvePanel(runs, (run) => run.revisitTtftMs, {
      title: 'Revisits: the whole distribution',
      note: 'All revisits, all trials.',
    }),
    ...(hasImmediate ? [immediate] : []),
    statisticsPanel(runs, (run) => run.prefillCallMs, {
      title: 'P’s call, revisits',
      note: 'prefillCallMs: router’s send to the prefill engine → its answer.',
    }),
    cyclePanel(result),
  ]
}

function conditionsOf(result: ReuseResult): DataTable {
  const { workload, environment } = result
  return conditionsTable(environment, [
    ['load', reuseWorkloadText(result)],
    ['engine', JSON.stringify(workload.engine)],
    ['transports', environment.transports.join(', ') || '–'],
    ['seed', String(environment.seed)],
  ])
}

export function renderReuseReport(result: ReuseResult): string {
  const { verdict, runs, workload, bars, noiseFloor } = result
  return renderPage({
    title: `KVFerry reuse (${workload.workingSet}): ${runs.map(({ label }) => label).join(', ')}`,
    lead: [
      headline(result.agent, result.environment.nixl),
      reuseWorkloadText(result),
      noiseLine(noiseFloor, ['revisitTtftMs.p50', 'revisitTtftMs.mean', 'immediateTtftMs.p50']),
      ...(bars.length === 0 ? [noHistoryText] : []),
      ...publishedReuse[workload.workingSet],
    ],
    failures: verdict.failures,
    warnings: verdict.warnings,
    panels: panelsOf(result),
    tables: [
      ...barTables(bars),
      ...reuseSections(result).map((section) => ({ ...section, head: ['', ...section.head] })),
      noiseTable(noiseFloor),
      conditionsOf(result),
    ],
  })
}

export const writeReuseReport = (target: string, result: ReuseResult): void =>
  writeWhole(target, renderReuseReport(result))
