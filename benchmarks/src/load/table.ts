/**
 * A load result on the screen. Every number comes from the result object: the table can't say more than the
 * file. Pure.
 */
import { breakdownParts } from '../compare/request-metrics.ts'
import { headline, noiseLine, partTitles } from '../compare/table.ts'
import { barText } from '../experiments/bar-table.ts'
import type { Distribution } from '../lib/distribution.ts'
import { formatMs, sectionText, shown, yesNo, type ResultSection } from '../lib/result-table.ts'
import { loadPhases, type LoadStep } from './plan.ts'
import { publishedLoad } from './published.ts'
import type { LoadResult, LoadRunEntry } from './result.ts'

type Row = readonly [title: string, show: (run: LoadRunEntry) => string]

export const phaseTitles: Readonly<Record<LoadStep, string>> = {
  init: 'one by one',
  c16: '16 at a time',
  c32: '32 at a time',
  overlap: 'arrivals during decode',
}

const pair = ({ p50, p95 }: Distribution): string => shown(p50, p95)
const percent = (value: number, of: number): string => `${((100 * value) / of).toFixed(1)} %`

function throughputRows(runs: readonly LoadRunEntry[]): Row[] {
  const base = runs.find(({ role }) => role === 'baseline')
  return loadPhases.flatMap((phase): Row[] => {
    const tokens = (run: LoadRunEntry): number => run.phases[phase].outputTokensPerS
    const share: Row = [
      `  of ${base?.label ?? ''}’s`,
      (run) => (base ? percent(tokens(run), tokens(base)) : '–'),
    ]
    const isCompared = base !== undefined && (phase === 'c16' || phase === 'c32')
    return [[phaseTitles[phase], (run) => tokens(run).toFixed(1)], ...(isCompared ? [share] : [])]
  })
}

const phaseRows: readonly Row[] = loadPhases.flatMap((phase): Row[] => [
  [`TTFT, ${phaseTitles[phase]}`, (run) => pair(run.phases[phase].ttftMs)],
  [`TPOT, ${phaseTitles[phase]}`, (run) => pair(run.phases[phase].tpotMs)],
])

const coldRows: readonly Row[] = [
  ['cold arrivals, TTFT', (run) => pair(run.coldArrivalTtftMs)],
  ...breakdownParts.map((part): Row => [
    `  ${partTitles[part]}`,
    (run) => pair(run.coldBreakdown[part]),
  ]),
  ['P’s end → KV on D, less D’s steps', (run) => pair(run.coldPathMs)],
  ['background decode, TPOT', (run) => pair(run.backgroundTpotMs)],
]

function ratioRows(runs: readonly LoadRunEntry[]): Row[] {
  const snapshots = runs.filter(({ role }) => role === 'snapshot')
  return snapshots.map((snapshot) => [
    `share of ${snapshot.label}’s P50 / P95`,
    (run) =>
      (['p50', 'p95'] as const)
        .map((statistic) => {
          const [ours, theirs] = [
            run.coldArrivalTtftMs[statistic],
            snapshot.coldArrivalTtftMs[statistic],
          ]
          return ours === null || theirs === null ? '–' : percent(ours, theirs)
        })
        .join(' / '),
  ])
}

const checkRows: readonly Row[] = [
  ['requests', (run) => String(run.requests)],
  ['failed / recomputed', (run) => `${run.failed} / ${run.recomputed}`],
  ['preemptions', (run) => String(run.preemptions)],
  [
    'KV bytes verified',
    (run) =>
      run.mismatchedBlocks > 0
        ? `${run.mismatchedBlocks} WRONG`
        : `${yesNo(run.bytesVerified)} (${run.blocksVerified} blocks)`,
  ],
  ['cold during decode', (run) => `${run.coldDuringDecode} of ${run.coldArrivals}`],
  [
    'tickets / finished / expired',
    ({ history: { registered, finished, expired } }) => `${registered} / ${finished} / ${expired}`,
  ],
  [
    'history saved / hit / failed',
    ({ history: { savedBlocks, hitBlocks, failures } }) =>
      `${savedBlocks} / ${hitBlocks} / ${failures}`,
  ],
  ['step stalls, total ms', (run) => formatMs(run.stepStallMs)],
  ['inside overrun guard', (run) => yesNo(run.valid)],
]

export function loadSections({ runs }: LoadResult): ResultSection[] {
  const section = (title: string, rows: readonly Row[]): ResultSection => ({
    title,
    head: runs.map((run) => run.label),
    rows: rows.map(([name, show]) => [name, ...runs.map(show)]),
  })
  return [
    section('output tokens a second', throughputRows(runs)),
    section('ms, p50 / p95', phaseRows),
    section('cold arrivals, ms, p50 / p95', [...coldRows, ...ratioRows(runs)]),
    section('checks', checkRows),
  ]
}

export function loadWorkloadText({ workload, environment }: LoadResult): string {
  const { requests, trials, plan, engine } = workload
  return (
    `${requests} requests${trials > 1 ? ` × ${trials} trials` : ''}: ${plan['prefixCount']} one by one, ` +
    `${plan['requestCount']} at C16, ${plan['requestCount']} at C32, ${plan['coldCount']} cold arrivals ` +
    `beside ${plan['backgroundCount']} decodes; model ${engine['model']}, kv-scale ${engine['kvScale']}, ` +
    `time-scale ${engine['timeScale']}, prefix caching ${workload.prefixCaching}, seed ${environment.seed}`
  )
}

export const noTicketsText =
  'No bars to judge: they are about a connector with tickets beside pull, and none ran.'

export const noiseNames = ['coldArrivalTtftMs.p50', 'coldArrivalTtftMs.p95'] as const

export function renderLoad(result: LoadResult): string {
  const { verdict, environment } = result
  const lines = [
    headline(result.agent, environment.nixl),
    loadWorkloadText(result),
    '',
    ...loadSections(result).map(sectionText),
    '',
    barText(result.bars, noTicketsText),
    ...publishedLoad,
    noiseLine(result.noiseFloor, noiseNames),
    ...verdict.warnings.map((text) => `warning: ${text}`),
    ...verdict.failures.map((text) => `FAILED: ${text}`),
    verdict.ok
      ? 'All checks passed: every KV byte that was read had been verified, texts are equal.'
      : 'Some checks FAILED.',
  ]
  return `${lines.join('\n')}\n`
}
