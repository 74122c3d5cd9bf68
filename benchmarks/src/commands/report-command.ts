/**
 * `kvferry-bench report`: charts of result files that are there, ours or vLLM's. Measures nothing. 0 = drawn,
 * 2 = there is nothing to draw, or what is there can't stand in one chart.
 */
import type { Command } from 'commander'
import { assertWritable, writeWhole } from '../lib/result-file.ts'
import type { CommandIo } from '../main.ts'
import { loadPointSet, metrics, statistics, type ReportPoint } from '../report/point-set.ts'
import { UsageError } from '../usage-error.ts'
import { integerBetween, oneOf } from './flag-values.ts'
import { collect } from './shared.ts'

interface ReportFlags {
  readonly resultsDir: readonly string[]
  readonly metric?: string
  readonly stat: string
  readonly outputLen?: string
  readonly svg?: string
  readonly html?: string
}

const example = `
Examples:
  $ kvferry-bench report --results-dir results --metric ttft --svg ttft.svg
  $ kvferry-bench report --results-dir results --results-dir vllm-results --html report.html

Exit code: 0 drawn, 2 wrong usage: no results, or results whose grids or conditions differ.`

function ofOneOutputLength(points: readonly ReportPoint[], flag: string | undefined) {
  const lengths = [...new Set(points.map(({ point }) => point.outputTokens))]
  const wanted = flag && integerBetween('output-len', flag, { min: 1, max: 262_144 })
  const chosen = wanted ?? lengths[0]
  if (wanted === undefined && lengths.length > 1) {
    throw new UsageError(`several output lengths (${lengths.join(', ')}): choose with --output-len`)
  }
  const group = points.filter(({ point }) => point.outputTokens === chosen)
  if (group.length > 0) return group
  throw new UsageError(`--output-len ${chosen}: there are ${lengths.join(', ')}`)
}

async function report(flags: ReportFlags, io: CommandIo): Promise<number> {
  const { svg, html } = flags
  if (svg === undefined && html === undefined) {
    throw new UsageError('report: say what to write: --svg FILE with --metric, or --html FILE')
  }
  if (svg !== undefined && flags.metric === undefined) {
    throw new UsageError(`--svg ${svg}: choose what it shows with --metric ttft or tpot`)
  }
  const statistic = oneOf('stat', flags.stat, statistics)
  const metric = flags.metric === undefined ? null : oneOf('metric', flags.metric, metrics)
  if (svg !== undefined) assertWritable('svg', svg)
  if (html !== undefined) assertWritable('html', html)
  const directories = flags.resultsDir.length > 0 ? flags.resultsDir : ['results']
  const points = loadPointSet(directories)
  if (svg !== undefined && metric !== null) {
    const { metricChart } = await import('../report/sweep-charts.ts')
    const chart = metricChart(ofOneOutputLength(points, flags.outputLen), metric, statistic)
    if (svg === '-') io.stdout.write(`${chart}\n`)
    else writeWhole(svg, `${chart}\n`)
  }
  if (html !== undefined) {
    const { writeSweepReport } = await import('../report/sweep-report.ts')
    writeSweepReport(html, points, null, statistic)
  }
  return 0
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addReportCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  program
    .command('report')
    .description("charts of a sweep's result files, or of `vllm bench serve --save-result`")
    .option('--results-dir <dir>', 'where the files are; repeatable (default results)', collect, [])
    .option('--metric <name>', 'ttft or tpot')
    .option('--stat <name>', 'mean, median or p99', 'mean')
    .option('--output-len <tokens>', 'of several output lengths, the one to draw')
    .option('--svg <file>', 'the chart of one metric; - = stdout')
    .option('--html <file>', 'both charts and everything else that is known, in one file')
    .addHelpText('after', example)
    .action(async (flags: ReportFlags) => finish(await report(flags, io)))
}
