/**
 * The result on the screen: what a reader wants to know first, with the checks in words. Every number
 * comes from the result object, so the table can't say more than the file. Pure.
 */
import Table from 'cli-table3'
import type { Distribution } from '../lib/distribution.ts'
import { breakdownParts, type BreakdownPart } from './request-metrics.ts'
import type { CompareResult, NoiseFloor, PerSide, RunEntry } from './result.ts'

const titles: Readonly<Record<BreakdownPart, string>> = {
  queue: 'queue',
  prefill: 'prefill',
  handOver: 'hand-over',
  alloc: 'alloc',
  dispatch: 'dispatch',
  post: 'post',
  wire: 'wire',
  stepBoundary: 'step boundary',
  firstToken: 'first token',
}

const plain = { style: { head: [], border: [], compact: true } }

export function formatMs(value: number | null): string {
  if (value === null) return '–'
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)
}

const pair = ({ p50, p99 }: Pick<Distribution, 'p50' | 'p99'>): string =>
  p50 === null ? '–' : `${formatMs(p50)} / ${formatMs(p99)}`

const sides = (values: PerSide<number>, digits: number): string =>
  [values.producer, values.consumer]
    .map((value) => (value === null ? '–' : value.toFixed(digits)))
    .join(' / ')

const yesNo = (isGood: boolean): string => (isGood ? 'yes' : 'NO')

function verifiedText(run: RunEntry): string {
  if (run.mismatchedBlocks > 0) return `${run.mismatchedBlocks} WRONG`
  return run.label === 'oracle' ? '–' : yesNo(run.bytesVerified)
}

function latencyTable(result: CompareResult): string {
  const oracle = result.runs.find((run) => run.label === 'oracle')
  const table = new Table({
    head: [
      'ms, p50 / p99',
      'TTFT',
      'TPOT',
      'end to end',
      'KV critical path',
      'requests',
      'failed',
      'recomputed',
      'KV verified',
      'text = oracle',
      'valid',
    ],
    ...plain,
  })
  for (const run of result.runs) {
    const isOracle = run === oracle
    table.push([
      run.label,
      pair(run.ttftMs),
      pair(run.tpotMs),
      pair(run.e2elMs),
      pair(run.criticalPathMs),
      run.requests,
      run.failed,
      run.recomputed,
      verifiedText(run),
      isOracle ? '–' : yesNo(run.outputDigest === oracle?.outputDigest),
      yesNo(run.valid),
    ])
  }
  return table.toString()
}

function breakdownTable(result: CompareResult): string {
  const table = new Table({
    head: ['ms, p50 / p99', ...breakdownParts.map((part) => titles[part])],
    ...plain,
  })
  for (const run of result.runs) {
    table.push([run.label, ...breakdownParts.map((part) => pair(run.breakdown[part]))])
  }
  return table.toString()
}

function transferTable(result: CompareResult): string {
  const table = new Table({
    head: [
      'transfer',
      'MB moved',
      'descriptors, merged',
      'handshake ms',
      'P / D hooks µs a step, p50',
      'stall ms',
      'P / D CPU s a request',
      'transports',
    ],
    ...plain,
  })
  for (const run of result.runs.filter((each) => each.label !== 'oracle')) {
    table.push([
      run.label,
      (run.bytes / 1e6).toFixed(1),
      `${run.descriptors.beforeMerge} → ${run.descriptors.afterMerge}`,
      formatMs(run.trials[0]?.handshakeMs ?? null),
      sides(
        {
          producer: run.hookUsPerStep.producer?.p50 ?? null,
          consumer: run.hookUsPerStep.consumer?.p50 ?? null,
        },
        1,
      ),
      formatMs(run.stepStallMs),
      sides(run.cpuSecondsPerRequest, 4),
      run.transports.join(', ') || '–',
    ])
  }
  return table.toString()
}

function noiseText(noise: NoiseFloor): string {
  const how =
    noise.method === 'split-half'
      ? 'odd against even requests of one run'
      : 'the same configuration in two sets of trials'
  const shown = ['ttftMs.p50', 'tpotMs.p50', 'criticalPathMs.p50'].map((name) => {
    const difference = noise.metrics[name]?.relativeDifference ?? null
    return `${name} ${difference === null ? '–' : `${(difference * 100).toFixed(1)} %`}`
  })
  return `noise floor (${how}, ${noise.label}): ${shown.join(', ')}`
}

/** First line of every comparison; says at once when it isn't the real thing. */
export function headline(agent: 'nixl' | 'memory', nixlVersion: string | null): string {
  return agent === 'memory'
    ? 'IN-MEMORY AGENT: all roles in one process, no NIXL. This shows the protocol, not its speed.'
    : `NIXL ${nixlVersion ?? '(version unknown)'}: prefill engine, decode engine and router in separate processes.`
}

export function renderResult(result: CompareResult): string {
  const { workload, verdict, environment } = result
  const lines = [
    headline(result.agent, environment.nixl),
    `${workload.requests} requests at ${workload.qps}/s${workload.trials > 1 ? ` × ${workload.trials} trials` : ''}` +
      ` (+ ${workload.warmUp} warm-up, + ${workload.burst} at once), model ${workload.engine['model']},` +
      ` kv-scale ${workload.engine['kvScale']}, seed ${environment.seed}`,
    '',
    latencyTable(result),
    '',
    'Where the time to first token went (columns add up to TTFT for each request, not percentile by percentile)',
    breakdownTable(result),
    '',
    transferTable(result),
    '',
    noiseText(result.noiseFloor),
    ...verdict.warnings.map((text) => `warning: ${text}`),
    ...verdict.failures.map((text) => `FAILED: ${text}`),
    verdict.ok
      ? 'All checks passed: every KV byte that was read had been verified, every text equals the oracle’s.'
      : 'Some checks FAILED.',
  ]
  return `${lines.join('\n')}\n`
}
