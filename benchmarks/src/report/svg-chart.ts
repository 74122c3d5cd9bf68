/**
 * Charts as SVG text, drawn by ECharts without a browser: what a page needs to show them is nothing. The
 * only module that knows the library; the others say what they want to see.
 */
import { BarChart, LineChart } from 'echarts/charts'
import { GridComponent, LegendComponent, TitleComponent } from 'echarts/components'
import { init, use, type EChartsCoreOption } from 'echarts/core'
import { SVGRenderer } from 'echarts/renderers'

use([LineChart, BarChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer])

export interface ChartText {
  readonly title: string
  readonly subtitle?: string
  readonly xTitle?: string
  readonly yTitle: string
}

export interface LineSeries {
  readonly name: string
  readonly color: string
  readonly dash: 'solid' | 'dashed' | 'dotted' | readonly number[]
  readonly symbol: 'circle' | 'rect' | 'triangle' | 'diamond' | 'none'
  /** One per category; null where nothing was measured. */
  readonly points: readonly (ChartPoint | null)[]
}

export interface ChartPoint {
  readonly value: number
  /** Drawn hollow: outside the overrun guard. */
  readonly isHollow: boolean
}

export interface CurveSeries {
  readonly name: string
  readonly color: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

export interface BarSeries {
  readonly name: string
  readonly color: string
  /** One per category; null where it doesn't apply. */
  readonly values: readonly (number | null)[]
}

/** Distinguishable for most kinds of colour blindness (Okabe and Ito). */
export const palette = [
  '#0072b2',
  '#d55e00',
  '#009e73',
  '#cc79a7',
  '#e69f00',
  '#56b4e9',
  '#7f7f7f',
  '#000000',
  '#b8a000',
] as const

export const colorOf = (index: number): string => palette[index % palette.length] as string

const size = { width: 760, height: 400 } as const
const ink = '#333333'

function draw(option: EChartsCoreOption, height: number = size.height): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...size, height })
  try {
    chart.setOption({ animation: false, ...option })
    // The style block only reacts to a pointer, which has nothing to find here.
    return chart.renderToSVGString().replace(/<style[\s\S]*?<\/style>/, '')
  } finally {
    chart.dispose()
  }
}

function frame(text: ChartText, legend: readonly string[]): Record<string, unknown> {
  const rows = Math.ceil(legend.length / 4)
  return {
    title: {
      text: text.title,
      subtext: text.subtitle ?? '',
      left: 'center',
      textStyle: { fontSize: 16, color: ink },
      subtextStyle: { fontSize: 12, color: ink },
    },
    legend: {
      show: legend.length > 0,
      bottom: 4,
      data: [...legend],
      itemWidth: 34,
      itemGap: 26,
      // Without a browser the widths of texts are guesses; room for wider fonts.
      textStyle: { fontSize: 11 },
    },
    grid: { left: 76, right: 24, top: 64, bottom: 56 + rows * 22 },
  }
}

const valueAxis = (name: string): Record<string, unknown> => ({
  type: 'value',
  name,
  nameLocation: 'middle',
  nameGap: 52,
  min: 0,
  nameTextStyle: { color: ink },
})

const axisTitle = (name: string | undefined): Record<string, unknown> => ({
  name: name ?? '',
  nameLocation: 'middle',
  nameGap: 30,
  nameTextStyle: { color: ink },
})

/** One line a series over named categories. */
export function lineChart(
  text: ChartText,
  categories: readonly string[],
  series: readonly LineSeries[],
): string {
  const rows = Math.ceil(series.length / 4)
  return draw(
    {
      ...frame(
        text,
        series.map(({ name }) => name),
      ),
      xAxis: { type: 'category', data: [...categories], ...axisTitle(text.xTitle) },
      yAxis: valueAxis(text.yTitle),
      series: series.map(({ name, color, dash, symbol, points }) => ({
        type: 'line',
        name,
        symbol,
        symbolSize: 8,
        itemStyle: { color },
        lineStyle: { color, width: 2, type: dash },
        data: points.map((point) => (point === null ? null : dataOf(point, color))),
      })),
    },
    size.height + rows * 22,
  )
}

const dataOf = ({ value, isHollow }: ChartPoint, color: string): Record<string, unknown> =>
  isHollow
    ? { value, itemStyle: { color: '#ffffff', borderColor: color, borderWidth: 2 } }
    : { value }

/** Curves over a number, such as the share of requests that took at most so long. */
export function curveChart(text: ChartText, series: readonly CurveSeries[]): string {
  return draw({
    ...frame(
      text,
      series.map(({ name }) => name),
    ),
    xAxis: { type: 'value', min: 0, ...axisTitle(text.xTitle) },
    yAxis: { ...valueAxis(text.yTitle), max: 100 },
    series: series.map(({ name, color, points }) => ({
      type: 'line',
      name,
      showSymbol: false,
      step: 'end',
      itemStyle: { color },
      lineStyle: { color, width: 2 },
      data: points.map((point) => [...point]),
    })),
  })
}

/** Bars beside one another, or with `isStacked` one on top of the other. */
export function barChart(
  text: ChartText,
  categories: readonly string[],
  series: readonly BarSeries[],
  isStacked = false,
): string {
  const rows = Math.ceil(series.length / 4)
  return draw(
    {
      ...frame(
        text,
        series.map(({ name }) => name),
      ),
      xAxis: {
        type: 'category',
        data: [...categories],
        axisLabel: { interval: 0, width: 120, overflow: 'break' },
        ...axisTitle(text.xTitle),
      },
      yAxis: valueAxis(text.yTitle),
      series: series.map(({ name, color, values }) => ({
        type: 'bar',
        name,
        itemStyle: { color },
        barMaxWidth: 48,
        ...(isStacked ? { stack: 'all' } : {}),
        data: [...values],
      })),
    },
    size.height + rows * 22,
  )
}
