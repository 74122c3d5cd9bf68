/** Panels and tables that the reports of several commands share. Pure. */
import { breakdownParts, type BreakdownPart } from '../compare/request-metrics.ts'
import type { NoiseFloor, RunEntry } from '../compare/result.ts'
import { partTitles } from '../compare/table.ts'
import type { Bar } from '../experiments/bar.ts'
import { barHead, barRows } from '../experiments/bar-table.ts'
import type { Distribution } from '../lib/distribution.ts'
import { percentText } from '../lib/percent-text.ts'
import type { DataTable, Panel } from './html-page.ts'
import { barChart, colorOf, curveChart, type BarSeries } from './svg-chart.ts'

/** The share of requests that took at most so long: the whole distribution, no bins. */
export function curvePanel<Run extends RunEntry>(
  runs: readonly Run[],
  read: (run: Run) => Distribution,
  { title, note }: { readonly title: string; readonly note: string },
): Panel {
  const series = runs.map((run, index) => {
    const sorted = [...read(run).samples].sort((a, b) => a - b)
    const points = sorted.map(
      (value, i) => [value, (100 * (i + 1)) / sorted.length] as [number, number],
    )
    return { name: run.label, color: colorOf(index), points }
  })
  const text = { title, xTitle: 'ms', yTitle: '% of requests' }
  return { title, svg: curveChart(text, series), note: `Further left is faster. ${note}` }
}

type Statistic = 'p50' | 'p95' | 'mean'

/** Median, tail and mean of one metric, one group of bars a run. */
export function statisticsPanel<Run extends RunEntry>(
  runs: readonly Run[],
  read: (run: Run) => Pick<Distribution, Statistic>,
  text: { readonly title: string; readonly note: string },
): Panel {
  const shown = runs.filter((run) => read(run).p50 !== null)
  const series: BarSeries[] = (['p50', 'p95', 'mean'] as const).map((key, index) => ({
    name: key,
    color: colorOf(index),
    values: shown.map((run) => read(run)[key]),
  }))
  const labels = shown.map((run) => run.label)
  const { title, note } = text
  return { title, svg: barChart({ title, yTitle: 'ms' }, labels, series), note }
}

/** Means, because only they add up. */
export function breakdownPanel<Run extends RunEntry>(
  runs: readonly Run[],
  read: (run: Run) => Readonly<Record<BreakdownPart, Distribution>>,
  title: string,
): Panel {
  const series = breakdownParts.map((part, index) => ({
    name: partTitles[part],
    color: colorOf(index),
    values: runs.map((run) => read(run)[part].mean),
  }))
  const text = { title, yTitle: 'ms, mean' }
  const labels = runs.map((run) => run.label)
  return {
    title,
    svg: barChart(text, labels, series, true),
    note: 'Means add up to the mean TTFT of the requests that have all parts; each part is what it added.',
  }
}

export function noiseTable(noise: NoiseFloor): DataTable {
  const show = (value: number | null): string => (value === null ? '–' : value.toFixed(2))
  return {
    title: `Noise floor: ${noise.label} against itself (${noise.method})`,
    head: ['metric', 'first', 'second', 'difference'],
    rows: Object.entries(noise.metrics).map(([name, { a, b, relativeDifference }]) => [
      name,
      show(a),
      show(b),
      percentText(relativeDifference),
    ]),
  }
}

/** No table where there are no bars. */
export const barTables = (bars: readonly Bar[]): DataTable[] =>
  bars.length === 0 ? [] : [{ title: 'Bars', head: [...barHead], rows: barRows(bars) }]
