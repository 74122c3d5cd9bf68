/**
 * The result on the screen: what a reader wants to know first, with the checks in words. One column per
 * configuration, so that it fits a terminal. Every number comes from the result object: the table can't
 * say more than the file. Pure.
 */
import { barText } from '../experiments/bar-table.ts'
import type { Distribution } from '../lib/distribution.ts'
import { percentText } from '../lib/percent-text.ts'
import { formatMs, sectionText, yesNo, type ResultSection } from '../lib/result-table.ts'
import { breakdownParts, type BreakdownPart } from './request-metrics.ts'
import type { CompareResult, NoiseFloor, PerSide, RunEntry } from './result.ts'

export const partTitles: Readonly<Record<BreakdownPart, string>> = {
  queue: 'queue (client, router, P)',
  prefill: 'prefill',
  handOver: 'hand-over (P end → D)',
  alloc: 'alloc on D',
  dispatch: 'dispatch to the agent',
  post: 'post',
  wire: 'wire',
  stepBoundary: 'wait for D’s step',
  firstToken: 'first token',
}

/** One row: a title, and what to show of each run. */
type Row = readonly [title: string, show: (run: RunEntry) => string]

const isOracle = (run: RunEntry): boolean => run.label === 'oracle'

const pair = ({ p50, p99 }: Pick<Distribution, 'p50' | 'p99'>): string =>
  p50 === null ? '–' : `${formatMs(p50)} / ${formatMs(p99)}`

const sides = (values: PerSide<number>, digits: number): string =>
  [values.producer, values.consumer]
    .map((value) => (value === null ? '–' : value.toFixed(digits)))
    .join(' / ')

const hookMedians = ({ hookUsPerStep }: RunEntry): PerSide<number> => ({
  producer: hookUsPerStep.producer?.p50 ?? null,
  consumer: hookUsPerStep.consumer?.p50 ?? null,
})

function verifiedText(run: RunEntry): string {
  if (run.mismatchedBlocks > 0) return `${run.mismatchedBlocks} WRONG`
  return isOracle(run) ? '–' : `${yesNo(run.bytesVerified)} (${run.blocksVerified} blocks)`
}

const latencyRows: readonly Row[] = [
  ['TTFT', (run) => pair(run.ttftMs)],
  ['TPOT', (run) => pair(run.tpotMs)],
  ['end to end', (run) => pair(run.e2elMs)],
]

const breakdownRows: readonly Row[] = breakdownParts.map((part) => [
  `  ${partTitles[part]}`,
  (run) => pair(run.breakdown[part]),
])

const transferRows: readonly Row[] = [
  ['KV critical path', (run) => pair(run.criticalPathMs)],
  ['  without the wire', (run) => pair(run.pathLessWireMs)],
  ['  bytes on it, kB', (run) => pair(inKilo(run.criticalBytes))],
  ['P’s end → first post', (run) => pair(run.firstPostMs)],
  ['D’s thread blocked, µs', (run) => pair(run.blockedUs.total)],
  ['  for descriptors', (run) => pair(run.blockedUs.descriptors)],
  ['  for the copy', (run) => pair(run.blockedUs.copy)],
  ['KV wait on D', (run) => pair(run.kvWaitMs)],
  ['wire', (run) => pair(run.wireMs)],
  ['post, µs', (run) => pair(run.postUs)],
  ['first handshake', (run) => formatMs(run.trials[0]?.handshakeMs ?? null)],
  ['step stalls, total', (run) => formatMs(run.stepStallMs)],
  ['hooks P / D, µs a step', (run) => sides(hookMedians(run), 1)],
  ['CPU P / D, ms a request', (run) => sides(inMs(run.cpuSecondsPerRequest), 1)],
  ['P / D busy, %', (run) => sides(inPercent(run.utilisation), 1)],
  ['block-seconds held P / D', (run) => sides(run.blockSecondsHeld, 1)],
  ['MB moved', (run) => (isOracle(run) ? '–' : (run.bytes / 1e6).toFixed(1))],
  [
    'descriptors, merged',
    ({ descriptors: { beforeMerge, afterMerge } }) =>
      beforeMerge === 0 ? '–' : `${beforeMerge} → ${afterMerge}`,
  ],
  ['transports', (run) => run.transports.join(', ') || '–'],
]

const inKilo = ({ p50, p99 }: Distribution) => ({
  p50: p50 === null ? null : p50 / 1_000,
  p99: p99 === null ? null : p99 / 1_000,
})

const inPercent = ({ producer, consumer }: PerSide<number>): PerSide<number> => ({
  producer: producer === null ? null : producer * 100,
  consumer: consumer === null ? null : consumer * 100,
})

const inMs = ({ producer, consumer }: PerSide<number>): PerSide<number> => ({
  producer: producer === null ? null : producer * 1_000,
  consumer: consumer === null ? null : consumer * 1_000,
})

function checkRows(oracle: RunEntry | undefined): Row[] {
  return [
    ['requests', (run) => String(run.requests)],
    ['failed / recomputed', (run) => `${run.failed} / ${run.recomputed}`],
    ['KV bytes verified', verifiedText],
    [
      'text = oracle’s',
      (run) => (isOracle(run) ? '–' : yesNo(run.outputDigest === oracle?.outputDigest)),
    ],
    ['inside overrun guard', (run) => yesNo(run.valid)],
  ]
}

export function resultSections({ runs }: CompareResult): ResultSection[] {
  const section = (title: string, rows: readonly Row[]): ResultSection => ({
    title,
    head: runs.map((run) => run.label),
    rows: rows.map(([name, show]) => [name, ...runs.map(show)]),
  })
  return [
    section('ms, p50 / p99', latencyRows),
    section('where TTFT went, p50 / p99', breakdownRows),
    section('transfer', transferRows),
    section('checks', checkRows(runs.find(isOracle))),
  ]
}

/** `names` as in the result: `METRIC.STATISTIC`. */
export function noiseLine(noise: NoiseFloor, names: readonly string[]): string {
  const how =
    noise.method === 'split-half'
      ? 'odd against even requests of one run'
      : 'the same configuration in two sets of trials'
  const shown = names.map(
    (name) => `${name} ${percentText(noise.metrics[name]?.relativeDifference ?? null)}`,
  )
  return `noise floor (${noise.label}, ${how}): ${shown.join(', ')}`
}

export const noiseText = (noise: NoiseFloor): string =>
  noiseLine(noise, ['ttftMs.p50', 'tpotMs.p50', 'criticalPathMs.p50'])

/** First line of every comparison; says at once when it isn't the real thing. */
export function headline(agent: 'nixl' | 'memory', nixlVersion: string | null): string {
  return agent === 'memory'
    ? 'IN-MEMORY AGENT: all roles in one process, no NIXL. This shows the protocol, not its speed.'
    : `NIXL ${nixlVersion ?? '(version unknown)'}: prefill engine, decode engine and router in separate processes.`
}

export function workloadText({ workload, environment }: CompareResult): string {
  const { promptTokens, engine } = workload
  const trials = workload.trials > 1 ? ` × ${workload.trials} trials` : ''
  const lengths = [...new Set([Math.min(...promptTokens), Math.max(...promptTokens)])]
  return (
    `${workload.requests} requests at ${workload.qps}/s${trials}, ${workload.warmUp} warm-up, ` +
    `${workload.burst} at once; prompts of ${lengths.join('–')} tokens, at most ` +
    `${engine['maxNumBatchedTokens']} in a step; model ${engine['model']}, ` +
    `kv-scale ${engine['kvScale']}, seed ${environment.seed}`
  )
}

export const noBarsText =
  'No bars to judge: they are about push, or another build, and neither ran.'

export function renderResult(result: CompareResult): string {
  const { verdict, environment } = result
  const lines = [
    headline(result.agent, environment.nixl),
    workloadText(result),
    '',
    ...resultSections(result).map(sectionText),
    '',
    barText(result.bars, noBarsText),
    '',
    'The parts add up to TTFT request by request; their percentiles don’t.',
    noiseText(result.noiseFloor),
    ...verdict.warnings.map((text) => `warning: ${text}`),
    ...verdict.failures.map((text) => `FAILED: ${text}`),
    verdict.ok
      ? 'All checks passed: every KV byte that was read had been verified, every text equals the oracle’s.'
      : 'Some checks FAILED.',
  ]
  return `${lines.join('\n')}\n`
}
