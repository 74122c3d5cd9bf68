/**
 * A reuse result on the screen. Every number comes from the result object: the table can't say more than the
 * file. Pure.
 */
import { headline, noiseLine } from '../compare/table.ts'
import { barText } from '../experiments/bar-table.ts'
import type { Distribution } from '../lib/distribution.ts'
import { percentText } from '../lib/percent-text.ts'
import { formatMs, sectionText, shown, yesNo, type ResultSection } from '../lib/result-table.ts'
import { baselineOf, modelledReductionMs, reductionMs, statistics } from './bars.ts'
import { hitShareOf } from './counter-checks.ts'
import { publishedReuse } from './published.ts'
import type { ReuseResult, ReuseRunEntry } from './result.ts'

type Row = readonly [title: string, show: (run: ReuseRunEntry) => string]

const three = ({ p50, p95, mean }: Distribution): string => shown(p50, p95, mean)

const latencyRows: readonly Row[] = [
  ['immediate repeat', (run) => three(run.immediateTtftMs)],
  ['revisit', (run) => three(run.revisitTtftMs)],
  ['P’s call, immediate', (run) => three(run.immediatePrefillCallMs)],
  ['P’s call, revisit', (run) => three(run.prefillCallMs)],
  ['modelled prefill, revisit', (run) => three(run.modelledPrefillMs)],
  ['restore on P', (run) => three(run.restoreMs)],
  ['TPOT', (run) => three(run.tpotMs)],
]

const historyRows: readonly Row[] = [
  ['loads / revisits', (run) => `${run.revisitHistory.loads} / ${run.revisits}`],
  ['blocks restored', (run) => `${run.revisitHistory.hitBlocks} (${percentText(hitShareOf(run))})`],
  [
    '  device / host tier',
    ({ revisitHistory: { deviceHitBlocks, hostHitBlocks } }) =>
      `${deviceHitBlocks} / ${hostHitBlocks}`,
  ],
  [
    'saved / demoted blocks',
    ({ history: { savedBlocks, demotions } }) => `${savedBlocks} / ${demotions}`,
  ],
  ['rejected blocks', ({ history }) => String(history.rejectedBlocks)],
  [
    'limited / late blocks',
    ({ history }) => `${history.capacityLimitedBlocks} / ${history.deadlineDroppedBlocks}`,
  ],
  ['tickets / finished', ({ history: { registered, finished } }) => `${registered} / ${finished}`],
  ['expired / failures', ({ history: { expired, failures } }) => `${expired} / ${failures}`],
]

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1)

const checkRows: readonly Row[] = [
  ['engine blocks', (run) => String(run.blockCount)],
  ['MB device KV, both engines', (run) => megabytes(run.memoryBytes.deviceKv)],
  [
    'MB device / host history',
    ({ memoryBytes: { deviceHistory, hostHistory } }) =>
      `${megabytes(deviceHistory)} / ${megabytes(hostHistory)}`,
  ],
  ['requests', (run) => String(run.requests)],
  ['failed / recomputed', (run) => `${run.failed} / ${run.recomputed}`],
  [
    'KV bytes verified',
    (run) =>
      run.mismatchedBlocks > 0
        ? `${run.mismatchedBlocks} WRONG`
        : `${yesNo(run.bytesVerified)} (${run.blocksVerified} blocks)`,
  ],
  ['inside overrun guard', (run) => yesNo(run.valid)],
]

function reductionRows(runs: readonly ReuseRunEntry[]): Row[] {
  const base = baselineOf(runs)
  if (!base || runs.every(({ role }) => role !== 'history')) return []
  const show = (
    run: ReuseRunEntry,
    read: (statistic: (typeof statistics)[number]) => number | null,
  ): string => (run === base ? '–' : shown(...statistics.map(read)))
  return [
    [
      `sooner than ${base.label}`,
      (run) => show(run, (statistic) => reductionMs(base, run, statistic)),
    ],
    [
      '  the time model says',
      (run) =>
        run.role === 'history'
          ? show(run, (statistic) => modelledReductionMs(base, run, statistic))
          : '–',
    ],
    [
      '  in per cent',
      (run) =>
        show(run, (statistic) => {
          const [of, against] = [reductionMs(base, run, statistic), base.revisitTtftMs[statistic]]
          return of === null || !against ? null : (-100 * of) / against
        }),
    ],
  ]
}

function cycleRows(runs: readonly ReuseRunEntry[]): Row[] {
  const cycles = runs[0]?.cycles ?? []
  return cycles.map(({ cycle }) => [
    `cycle ${cycle}`,
    (run) => {
      const found = run.cycles.find((each) => each.cycle === cycle)
      if (!found) return '–'
      const { immediateTtftMs, revisitTtftMs, hitBlocks } = found
      const blocks = run.role === 'history' ? ` (${hitBlocks} blocks)` : ''
      return `${formatMs(immediateTtftMs.p50)} → ${formatMs(revisitTtftMs.p50)}${blocks}`
    },
  ])
}

export function reuseSections({ runs }: ReuseResult): ResultSection[] {
  const section = (title: string, rows: readonly Row[]): ResultSection => ({
    title,
    head: runs.map((run) => run.label),
    rows: rows.map(([name, show]) => [name, ...runs.map(show)]),
  })
  return [
    section('ms, p50 / p95 / mean', [...latencyRows, ...reductionRows(runs)]),
    section('TTFT p50 by cycle, ms', cycleRows(runs)),
    section('history of P', historyRows),
    section('checks', checkRows),
  ]
}

export function reuseWorkloadText({ workload, environment }: ReuseResult): string {
  const { workingSet, requests, cycles, trials, concurrency, documentTokens, engine } = workload
  return (
    `working set ${workingSet}: ${requests} requests in ${cycles} cycles` +
    `${trials > 1 ? ` × ${trials} trials` : ''}, ${concurrency} at a time; documents of ` +
    `${documentTokens} tokens; model ${engine['model']}, kv-scale ${engine['kvScale']}, ` +
    `${engine['blockCount']} engine blocks, ${workload.historyBlocks} device history blocks, ` +
    `prefix caching ${workload.prefixCaching}, seed ${environment.seed}`
  )
}

export const noHistoryText =
  'No bars to judge: they compare a connector that keeps a history with a baseline, and one of them did not run.'

export const barsOf = ({ bars, workload }: ReuseResult): string =>
  barText(
    bars,
    workload.workingSet === 'capacity-tier'
      ? 'The capacity tier has no bars on time: its checks are the counters.'
      : noHistoryText,
  )

export function renderReuse(result: ReuseResult): string {
  const { verdict, environment, workload, noiseFloor } = result
  const lines = [
    headline(result.agent, environment.nixl),
    reuseWorkloadText(result),
    `device tier: ${environment.deviceTier}`,
    '',
    ...reuseSections(result).map(sectionText),
    '',
    barsOf(result),
    ...publishedReuse[workload.workingSet],
    noiseLine(noiseFloor, ['revisitTtftMs.p50', 'revisitTtftMs.mean', 'immediateTtftMs.p50']),
    ...verdict.warnings.map((text) => `warning: ${text}`),
    ...verdict.failures.map((text) => `FAILED: ${text}`),
    verdict.ok
      ? 'All checks passed: every KV byte that was read had been verified, texts are equal, counters say where prefixes came from.'
      : 'Some checks FAILED.',
  ]
  return `${lines.join('\n')}\n`
}
