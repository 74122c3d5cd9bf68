/**
 * One run in words: a line for the progress on screen, and the page that lies beside its result file as
 * `.log`. Every number comes from the file. Pure.
 */
import Table from 'cli-table3'
import type { Distribution } from '../lib/distribution.ts'
import type { PerSide } from '../compare/result.ts'
import type { PointFile } from './point-file.ts'

const fixed = (value: unknown, digits = 1): string =>
  typeof value === 'number' ? value.toFixed(digits) : '–'

const pair = (distribution: Distribution | null | undefined): string =>
  `${fixed(distribution?.p50, 2)} / ${fixed(distribution?.p99, 2)}`

const sides = ({ producer, consumer }: PerSide<number>): string =>
  `${fixed(producer)} / ${fixed(consumer)}`

const validText = { true: 'inside the overrun guard', false: 'OUTSIDE THE OVERRUN GUARD' }

const guardText = ({ valid }: PointFile['kvferry']): string =>
  valid === null ? 'overrun unknown (server given by URL)' : validText[`${valid}`]

export function pointLine(file: PointFile): string {
  const { label, point, valid } = file.kvferry
  const mark = valid === false ? ' – outside the overrun guard' : ''
  const failed = Number(file['failed']) > 0 ? `, ${String(file['failed'])} FAILED` : ''
  return (
    `${label} at ${point.qps}/s, ${point.inputTokens} in: TTFT ${fixed(file['median_ttft_ms'])} / ` +
    `${fixed(file['p99_ttft_ms'])} ms, TPOT ${fixed(file['median_tpot_ms'], 2)} ms${failed}${mark}`
  )
}

export function renderPointLog(file: PointFile): string {
  const { label, point, run, conditions } = file.kvferry
  const latency = new Table({
    head: ['ms', 'mean', 'median', 'std', 'p99'],
    style: { head: [], border: [], compact: true },
  })
  for (const name of ['ttft', 'tpot', 'itl', 'e2el']) {
    const at = (statistic: string): string => fixed(file[`${statistic}_${name}_ms`], 2)
    latency.push([name.toUpperCase(), at('mean'), at('median'), at('std'), at('p99')])
  }
  const lines = [
    `${label}: ${point.qps} requests/s, ${point.inputTokens} tokens in, ${point.outputTokens} out, iteration ${point.iteration}`,
    `${String(file['completed'])} of ${String(file['num_prompts'])} requests completed in ${fixed(file.duration)} s; ${guardText(file.kvferry)}`,
    `${fixed(file['request_throughput'], 2)} requests/s, ${fixed(file['output_throughput'])} output tokens/s, ${fixed(file['total_token_throughput'])} tokens/s`,
    latency.toString(),
  ]
  if (run) {
    lines.push(
      `hooks ${run.hooks}; kv-scale ${run.kvScale}; seed ${conditions.seed}; transports ${run.transports.join(', ') || '–'}`,
      `KV critical path ${pair(run.criticalPathMs)} ms, wire ${pair(run.wireMs)} ms, KV wait ${pair(run.kvWaitMs)} ms, post ${pair(run.postUs)} µs (p50 / p99)`,
      `block-seconds held by P / D ${sides(run.blockSecondsHeld)}; step stalls ${fixed(run.stepStallMs)} ms; CPU ${fixed(run.cpuBusy * 100)} % of the machine`,
      `KV bytes verified: ${run.bytesVerified ? 'all' : 'NO'}; recomputed ${run.recomputed}; first request ${fixed(file.kvferry.firstRequestTtftMs)} ms`,
      ...run.errors.map((text) => `error: ${text}`),
    )
  }
  return `${lines.join('\n')}\n`
}
