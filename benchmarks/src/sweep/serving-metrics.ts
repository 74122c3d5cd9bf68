/**
 * The numbers of one run under the names, and by the definitions, of `vllm bench serve --save-result`: times
 * from the actual send, population standard deviation, percentiles interpolated between ranks. Pure. Our own
 * definitions (from the planned send, nearest rank) stand beside them under `kvferry`.
 */
import type { RequestRecord } from '../compare/load-client.ts'
import type { LoopResult } from '../compare/loop-result.ts'

const metricNames = ['ttft', 'tpot', 'itl', 'e2el'] as const
type MetricName = (typeof metricNames)[number]
const percentiles = [50, 90, 95, 99] as const

/** Linear between the two nearest ranks, as numpy does by default. @throws RangeError when empty. */
export function interpolatedPercentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const position = (percent / 100) * (sorted.length - 1)
  const below = sorted[Math.floor(position)]
  const above = sorted[Math.ceil(position)]
  if (below === undefined || above === undefined) throw new RangeError('no observations')
  return below + (above - below) * (position - Math.floor(position))
}

interface Observed {
  readonly ttftMs: number
  readonly tpotMs: number | null
  readonly itlMs: readonly number[]
  readonly e2elMs: number
}

function observe(record: RequestRecord): Observed | null {
  const { sentAtMs, lastTokenAtMs, tokenAtMs, outputTokens, error } = record
  const [firstAtMs] = tokenAtMs
  if (error !== null || sentAtMs === null || lastTokenAtMs === null || firstAtMs === undefined)
    return null
  return {
    ttftMs: firstAtMs - sentAtMs,
    tpotMs: outputTokens < 2 ? null : (lastTokenAtMs - firstAtMs) / (outputTokens - 1),
    itlMs: tokenAtMs.slice(1).map((atMs, i) => atMs - (tokenAtMs[i] as number)),
    e2elMs: lastTokenAtMs - sentAtMs,
  }
}

/** Zeros where nothing was observed, as vLLM writes them: `completed` says how much they mean. */
function summarise(name: MetricName, values: readonly number[]): Record<string, number> {
  const count = Math.max(1, values.length)
  const mean = values.reduce((sum, value) => sum + value, 0) / count
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count
  const at = (percent: number): number =>
    values.length === 0 ? 0 : interpolatedPercentile(values, percent)
  return {
    [`mean_${name}_ms`]: mean,
    [`median_${name}_ms`]: at(50),
    [`std_${name}_ms`]: Math.sqrt(variance),
    ...Object.fromEntries(percentiles.map((percent) => [`p${percent}_${name}_ms`, at(percent)])),
  }
}

/** Most tokens that arrived in one second of the run, counted from its start. */
function peakTokensPerSecond(records: readonly RequestRecord[], startedAtMs: number): number {
  const counts = new Map<number, number>()
  for (const atMs of records.flatMap((record) => record.tokenAtMs)) {
    const second = Math.floor((atMs - startedAtMs) / 1_000)
    counts.set(second, (counts.get(second) ?? 0) + 1)
  }
  return Math.max(0, ...counts.values())
}

export type ServingMetrics = Readonly<Record<string, number>>

export function servingMetrics(measured: LoopResult): ServingMetrics {
  const { records, startedAtMs, endedAtMs } = measured
  const done = records.filter((record) => observe(record) !== null)
  const observed = done.map(observe).filter((each) => each !== null)
  const durationS = (endedAtMs - startedAtMs) / 1_000
  const inputTokens = done.reduce((sum, record) => sum + record.planned.prompt.length, 0)
  const outputTokens = done.reduce((sum, record) => sum + record.outputTokens, 0)
  const values: Record<MetricName, number[]> = {
    ttft: observed.map((each) => each.ttftMs),
    tpot: observed.map((each) => each.tpotMs).filter((value) => value !== null),
    itl: observed.flatMap((each) => each.itlMs),
    e2el: observed.map((each) => each.e2elMs),
  }
  return {
    duration: durationS,
    completed: done.length,
    failed: records.length - done.length,
    total_input_tokens: inputTokens,
    total_output_tokens: outputTokens,
    request_throughput: done.length / durationS,
    output_throughput: outputTokens / durationS,
    total_token_throughput: (inputTokens + outputTokens) / durationS,
    max_output_tokens_per_s: peakTokensPerSecond(done, startedAtMs),
    max_concurrent_requests: measured.peakConcurrency,
    ...Object.assign({}, ...metricNames.map((name) => summarise(name, values[name]))),
  }
}

/** What `--save-detailed` adds: one entry per request, seconds, in the order of the plan. */
export function detailedMetrics(measured: LoopResult): Readonly<Record<string, unknown>> {
  const { records, startedAtMs } = measured
  const seconds = (ms: number | undefined): number => (ms ?? 0) / 1_000
  const all = records.map((record) => observe(record))
  return {
    input_lens: records.map((record) => record.planned.prompt.length),
    output_lens: records.map((record) => record.outputTokens),
    ttfts: all.map((each) => seconds(each?.ttftMs)),
    itls: all.map((each) => (each?.itlMs ?? []).map(seconds)),
    latencies: all.map((each) => seconds(each?.e2elMs)),
    start_times: records.map(({ sentAtMs }) => seconds((sentAtMs ?? startedAtMs) - startedAtMs)),
    generated_texts: records.map((record) => record.text),
    errors: records.map((record) => record.error ?? ''),
  }
}
