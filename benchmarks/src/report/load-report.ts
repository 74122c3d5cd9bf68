/**
 * The HTML report of a load experiment. Every number comes from the result, so the page says no more than the
 * file.
 */
import { headline, noiseLine } from '../compare/table.ts'
import { writeWhole } from '../lib/result-file.ts'
import { loadPhases } from '../load/plan.ts'
import { publishedLoad } from '../load/published.ts'
import type { LoadResult } from '../load/result.ts'
import {
  loadSections,
  loadWorkloadText,
  noiseNames,
  noTicketsText,
  phaseTitles,
} from '../load/table.ts'
import { conditionsTable } from './conditions-table.ts'
import { renderPage, type DataTable, type Panel } from './html-page.ts'
import { barTables, breakdownPanel, curvePanel, noiseTable, statisticsPanel } from './run-panels.ts'
import { barChart, colorOf } from './svg-chart.ts'

function throughputPanel({ runs }: LoadResult): Panel {
  const title = 'Output tokens a second'
  const phases = loadPhases.filter((phase) => phase !== 'init')
  const series = phases.map((phase, index) => ({
    name: phaseTitles[phase],
    color: colorOf(index),
    values: runs.map((run) => run.phases[phase].outputTokensPerS),
  }))
  const labels = runs.map(({ label }) => label)
  return {
    title,
    svg: barChart({ title, yTitle: 'tokens/s' }, labels, series),
    note: 'Tokens of a phase over its time, all trials. Callers wait for their answers.',
  }
}

const panelsOf = (result: LoadResult): Panel[] => [
  throughputPanel(result),
  statisticsPanel(result.runs, (run) => run.coldArrivalTtftMs, {
    title: 'Cold arrivals: time to first token',
    note: 'Prompts that nobody has seen, while other requests decode; from the planned moment.',
  }),
  curvePanel(result.runs, (run) => run.coldArrivalTtftMs, {
    title: 'Cold arrivals: the whole distribution',
    note: 'All trials.',
  }),
  breakdownPanel(result.runs, (run) => run.coldBreakdown, 'Where the cold arrivals’ TTFT went'),
  statisticsPanel(result.runs, (run) => run.backgroundTpotMs, {
    title: 'Background decode: time per output token',
    note: 'What the arrivals cost those that decode.',
  }),
  statisticsPanel(result.runs, (run) => run.phases.c32.ttftMs, {
    title: '32 at a time: time to first token',
    note: 'From the send.',
  }),
]

function conditionsOf(result: LoadResult): DataTable {
  const { workload, environment } = result
  return conditionsTable(environment, [
    ['load', loadWorkloadText(result)],
    ['requests', JSON.stringify(workload.plan)],
    ['engine', JSON.stringify(workload.engine)],
    ['transports', environment.transports.join(', ') || '–'],
    ['seed', String(environment.seed)],
  ])
}

export function renderLoadReport(result: LoadResult): string {
  const { verdict, runs, bars, noiseFloor } = result
  return renderPage({
    title: `KVFerry load: ${runs.map(({ label }) => label).join(', ')}`,
    lead: [
      headline(result.agent, result.environment.nixl),
      loadWorkloadText(result),
      noiseLine(noiseFloor, noiseNames),
      ...(bars.length === 0 ? [noTicketsText] : []),
      ...publishedLoad,
    ],
    failures: verdict.failures,
    warnings: verdict.warnings,
    panels: panelsOf(result),
    tables: [
      ...barTables(bars),
      ...loadSections(result).map((section) => ({ ...section, head: ['', ...section.head] })),
      noiseTable(noiseFloor),
      conditionsOf(result),
    ],
  })
}

export const writeLoadReport = (target: string, result: LoadResult): void =>
  writeWhole(target, renderLoadReport(result))
