/** The requests of the load experiment, its bars and checks, each alone. */
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { describe, expect, it } from 'vitest'
import type { Configuration } from '../src/compare/configuration.ts'
import type { RequestRecord } from '../src/compare/load-client.ts'
import { plannedRequests } from '../src/experiments/experiment-trial.ts'
import { readHistoryCounters } from '../src/experiments/history-counters.ts'
import { createDistribution } from '../src/lib/distribution.ts'
import { loadBars } from '../src/load/bars.ts'
import { loadChecks } from '../src/load/checks.ts'
import { planLoad } from '../src/load/plan.ts'
import { loadPresets } from '../src/load/presets.ts'
import type { LoadRunEntry, LoadWorkload } from '../src/load/result.ts'
import { isDuringDecode } from '../src/load/run-entry.ts'
import { loadRuns } from '../src/load/runs-of.ts'

const planOf = (preset: keyof typeof loadPresets) =>
  planLoad({ ...loadPresets[preset].plan, random: createSeededRandom(1) })

describe('the plan', () => {
  it('is the published 652 requests in full', () => {
    const plan = planOf('full')
    const counts = plan.steps.map(({ kind, concurrency, requests, background = [] }) => [
      ...[kind, concurrency, background.length + requests.length],
    ])
    expect(counts).toEqual([
      ['init', 1, 11],
      ['c16', 16, 300],
      ['c32', 32, 300],
      ['overlap', null, 40],
    ])
    const requests = plannedRequests(plan)
    expect(requests).toHaveLength(652)
    expect(requests.map(({ index }) => index)).toEqual(requests.map((_, i) => i))
  })

  it('shares twelve prefixes, of whole blocks, and never a whole prompt', () => {
    const plan = planOf('quick')
    const { prefixTokens } = loadPresets.quick.plan
    expect(prefixTokens % 16).toBe(0)
    const requests = plannedRequests(plan)
    expect(new Set(requests.map(({ prompt }) => prompt)).size).toBe(requests.length)
    const shared = requests.filter(({ index }) => plan.kindOf(index) === 'shared')
    expect(new Set(shared.map(({ prompt }) => prompt.slice(0, prefixTokens))).size).toBe(12)
  })

  it('has 32 cold arrivals at equal distances, beside eight long decodes, that share nothing', () => {
    const plan = planOf('quick')
    const { requests: cold = [], background = [] } = plan.steps.at(-1) ?? {}
    expect(new Set(cold.map(({ index }) => plan.kindOf(index)))).toEqual(new Set(['cold']))
    expect(plan.kindOf(background[0]?.index ?? -1)).toBe('background')
    expect(cold.map(({ atMs }) => atMs)).toEqual(cold.map((_, i) => i * 10))
    expect(cold).toHaveLength(32)
    expect(background.map(({ atMs, outputTokens }) => [atMs, outputTokens])).toEqual(
      Array.from({ length: 8 }, () => [0, 256]),
    )
    const heads = plannedRequests(plan).map(({ prompt }) => prompt.slice(0, 16))
    for (const { prompt } of [...background, ...cold]) {
      expect(heads.filter((head) => head === prompt.slice(0, 16))).toHaveLength(1)
    }
  })

  it('decodes in the background until after the last cold arrival, by the time model', () => {
    const { plan, engine } = loadPresets.quick
    expect(engine.model).toBe('qwen2.5-0.5b')
    const lastArrivalMs = (plan.coldCount - 1) * plan.coldGapMs
    // A step of this model takes 2.5 ms at least.
    expect(plan.backgroundOutputTokens * 2.5).toBeGreaterThan(1.5 * lastArrivalMs)
    expect(plan.coldTokens + plan.backgroundOutputTokens).toBeLessThanOrEqual(engine.maxModelLen)
  })
})

describe('a cold arrival is during decode', () => {
  const record = (sentAtMs: number | null, ...tokenAtMs: number[]) =>
    ({ sentAtMs, tokenAtMs }) as unknown as RequestRecord
  const background = [record(0, 10, 50, 100)]

  it('between the first and the last token of a background request', () => {
    expect(isDuringDecode(record(10, 100), background)).toBe(true)
    expect(isDuringDecode(record(9, 60), background)).toBe(false)
    expect(isDuringDecode(record(60, 101), background)).toBe(false)
    expect(isDuringDecode(record(60), background)).toBe(false)
    expect(isDuringDecode(record(null, 60), background)).toBe(false)
    expect(isDuringDecode(record(60, 70), [record(0)])).toBe(false)
  })
})

describe('the roles', () => {
  const choice = (connector: string, options: Record<string, unknown>, hasTickets: boolean) => ({
    configuration: { connector, options, label: connector } as unknown as Configuration,
    hasTickets,
  })
  it('are by tickets and staging, and pull as it is comes first', () => {
    const choices = [
      choice('xavier', {}, true),
      choice('xavier', { staging: 'snapshot' }, true),
      choice('pull', { posting: 'inline' }, false),
      choice('pull', {}, false),
    ]
    expect(loadRuns(choices, loadPresets.quick.engine).map(({ role }) => role)).toEqual([
      'baseline',
      'direct',
      'snapshot',
      'other',
    ])
  })
})

const at = (ms: number) => createDistribution([ms])
const entry = (
  label: string,
  role: LoadRunEntry['role'],
  tokensPerS: number,
  coldMs: number,
  coldPathMs = coldMs,
): LoadRunEntry =>
  ({
    ...{ label, role, connector: label.split('-')[0], coldArrivals: 32, coldDuringDecode: 32 },
    phases: { c16: { outputTokensPerS: tokensPerS }, c32: { outputTokensPerS: tokensPerS } },
    ...{ coldArrivalTtftMs: at(coldMs), coldPathMs: at(coldPathMs) },
    ...{ history: readHistoryCounters({}), missingCounters: [] },
  }) as unknown as LoadRunEntry

describe('the bars', () => {
  const spread = { a: 1, b: 1, relativeDifference: 0.05 }
  const noise = {
    ...{ method: 'split-half' as const, label: 'pull' },
    metrics: { 'coldArrivalTtftMs.p50': spread, 'coldArrivalTtftMs.p95': spread },
  }
  const verdictsOf = (...runs: LoadRunEntry[]) =>
    loadBars(runs, noise).map(({ verdict }) => verdict)
  const pull = entry('pull', 'baseline', 100, 50)
  const snapshot = entry('xavier-snapshot', 'snapshot', 80, 90)

  it('hold at 98 % of the tokens, within the noise, and with the KV sooner than from a snapshot', () => {
    expect(verdictsOf(pull, entry('xavier', 'direct', 98, 52.4), snapshot)).toEqual(
      Array.from({ length: 7 }, () => 'held'),
    )
  })

  it('are missed by less, and by more', () => {
    expect(verdictsOf(pull, entry('xavier', 'direct', 97.9, 52.6), snapshot)).toEqual([
      ...['missed', 'missed', 'missed', 'missed', 'held', 'held', 'held'],
    ])
    expect(verdictsOf(pull, entry('xavier', 'direct', 100, 94.6), snapshot).slice(4)).toEqual([
      ...['missed', 'missed', 'missed'],
    ])
  })

  it("allow a first token in the snapshot's noise, but no KV that comes no sooner", () => {
    const equal = entry('xavier', 'direct', 100, 94.4, 90)
    expect(verdictsOf(pull, equal, snapshot).slice(4)).toEqual(['missed', 'held', 'held'])
  })

  it('are about connectors with tickets only, and need something to compare with', () => {
    expect(loadBars([pull, entry('push', 'other', 1, 999)], noise)).toEqual([])
    expect(loadBars([entry('xavier', 'direct', 100, 50)], noise)).toEqual([])
    expect(verdictsOf(pull, entry('xavier', 'direct', 100, 50))).toHaveLength(4)
  })
})

describe('the checks', () => {
  const workload = { requests: 10, trials: 2 } as unknown as LoadWorkload
  const tickets = readHistoryCounters({ direct_registered: 20, direct_finished: 20 })
  const direct = { ...entry('xavier', 'direct', 1, 1), history: tickets }

  it('count a ticket for each request of all trials', () => {
    expect(loadChecks(direct, workload)).toEqual([])
    const lost = { ...direct, history: { ...tickets, finished: 19 } }
    expect(loadChecks(lost, workload)[0]).toMatch(/20 tickets registered and 19 finished/)
  })

  it('want every cold arrival during decode', () => {
    const late = { ...direct, coldDuringDecode: 30 }
    expect(loadChecks(late, workload)).toEqual([
      'xavier: 2 of 32 cold arrivals met no decode in the background',
    ])
  })

  it('want no tickets where there are none, and every counter where there are some', () => {
    const pull = entry('pull', 'baseline', 1, 1)
    expect(loadChecks(pull, workload)).toEqual([])
    expect(loadChecks({ ...pull, history: tickets }, workload)).toHaveLength(1)
    const silent = { ...direct, missingCounters: ['leasesExpired'] }
    expect(loadChecks(silent, workload)[0]).toMatch(/doesn't report leasesExpired/)
  })
})
