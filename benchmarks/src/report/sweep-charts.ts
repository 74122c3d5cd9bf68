/**
 * The charts of a sweep: input length across, one line for each mode and rate, as the published comparison
 * has them. Pure.
 */
import { combine, modesOf, readNumber, type PointValue, type ReportPoint } from './point-set.ts'
import type { Metric, Statistic } from './point-set.ts'
import { colorOf, lineChart, type ChartText, type LineSeries } from './svg-chart.ts'

const dashes: readonly LineSeries['dash'][] = ['dotted', 'dashed', [12, 4, 3, 4], 'solid']
const symbols: readonly LineSeries['symbol'][] = ['circle', 'rect', 'triangle', 'diamond']

const sorted = (values: readonly number[]): number[] => [...new Set(values)].sort((a, b) => a - b)

const lengthText = (tokens: number): string =>
  tokens % 1_024 === 0 ? `${tokens / 1_024}k` : String(tokens)

/** The highest rate is drawn with the fullest line. */
function styleOf(index: number, count: number): Pick<LineSeries, 'dash' | 'symbol'> {
  const fromLast = Math.max(0, dashes.length - count + index)
  return {
    dash: dashes[Math.min(fromLast, dashes.length - 1)] ?? 'solid',
    symbol: symbols[index % symbols.length] ?? 'circle',
  }
}

/** `points` of one output length. */
export function sweepLines(
  points: readonly ReportPoint[],
  text: ChartText,
  read: (point: ReportPoint) => number | null,
  isMean: boolean,
): string {
  const inputs = sorted(points.map(({ point }) => point.inputTokens))
  const rates = sorted(points.map(({ point }) => point.qps))
  const valueAt = (mode: string, qps: number, inputTokens: number): PointValue | null =>
    combine(
      points.filter(
        (each) =>
          each.mode === mode && each.point.qps === qps && each.point.inputTokens === inputTokens,
      ),
      read,
      isMean,
    )
  const series = modesOf(points).flatMap((mode, modeIndex) =>
    rates.map((qps, rateIndex) => ({
      name: `${mode}, ${qps}/s`,
      color: colorOf(modeIndex),
      ...styleOf(rateIndex, rates.length),
      points: inputs.map((inputTokens) => {
        const found = valueAt(mode, qps, inputTokens)
        return found && { value: found.value, isHollow: found.isInvalid }
      }),
    })),
  )
  const title = { xTitle: 'input tokens', ...text }
  return lineChart(title, inputs.map(lengthText), series)
}

const metricTitles: Readonly<Record<Metric, string>> = {
  ttft: 'Time to first token',
  tpot: 'Time per output token',
}

function subtitleOf(points: readonly ReportPoint[], statistic: Statistic): string {
  const iterations = new Set(points.map(({ point }) => point.iteration)).size
  const outputs = sorted(points.map(({ point }) => point.outputTokens)).join(', ')
  const over =
    iterations === 1
      ? statistic
      : statistic === 'mean'
        ? `mean of ${iterations} iterations`
        : `median of ${iterations} iterations' ${statistic}`
  const hasInvalid = points.some(({ extras }) => extras?.valid === false)
  const hollow = hasInvalid ? '; hollow = outside the overrun guard' : ''
  return `${over}, ${outputs} output tokens${hollow}`
}

/** One of the two published charts. `points` of one output length. */
export function metricChart(
  points: readonly ReportPoint[],
  metric: Metric,
  statistic: Statistic,
): string {
  const field = `${statistic}_${metric}_ms`
  const text = {
    title: metricTitles[metric],
    subtitle: subtitleOf(points, statistic),
    yTitle: 'ms',
  }
  return sweepLines(points, text, (point) => readNumber(point, field), statistic === 'mean')
}
