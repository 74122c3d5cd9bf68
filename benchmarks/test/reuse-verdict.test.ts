/** Each counter check and each bar of `reuse` alone: what fails it, what holds it, and what leaves it open. */
import { describe, expect, it } from 'vitest'
import { unlessInvalid } from '../src/experiments/bar.ts'
import { judgeExperiment } from '../src/experiments/experiment.ts'
import { readHistoryCounters, type HistoryCounters } from '../src/experiments/history-counters.ts'
import { createDistribution } from '../src/lib/distribution.ts'
import { reuseBars } from '../src/reuse/bars.ts'
import { counterChecks } from '../src/reuse/counter-checks.ts'
import type { ReuseRunEntry, ReuseWorkload } from '../src/reuse/result.ts'

const workload = (workingSet: ReuseWorkload['workingSet'], concurrency = 1): ReuseWorkload =>
  ({ workingSet, concurrency, requests: 100, trials: 1 }) as unknown as ReuseWorkload

const counted = (counters: Partial<HistoryCounters>): HistoryCounters => ({
  ...readHistoryCounters({}),
  ...counters,
})

const goodHistory = counted({
  ...{ registered: 100, finished: 100, loads: 10, hitBlocks: 96 },
  ...{ deviceHitBlocks: 16, hostHitBlocks: 80, rejectedBlocks: 5, demotions: 9 },
})
const at = (ms: number) => createDistribution([ms, ms])

const history = {
  label: 'xavier',
  connector: 'xavier',
  role: 'history',
  revisits: 10,
  revisitBlocks: 100,
  history: goodHistory,
  revisitHistory: goodHistory,
  missingCounters: [],
  revisitTtftMs: at(40),
  immediateTtftMs: at(31),
  prefillCallMs: at(20),
  modelledPrefillMs: at(8),
  modelledRevisitMs: at(28),
  restoreMs: at(20),
} as unknown as ReuseRunEntry

const control = (label: string, changes: Partial<ReuseRunEntry> = {}): ReuseRunEntry => ({
  ...history,
  ...{ label, connector: label, role: 'baseline', restoreMs: createDistribution([]) },
  ...{ history: counted({}), revisitHistory: counted({}) },
  ...{ revisitTtftMs: at(100), immediateTtftMs: at(30), prefillCallMs: at(82) },
  ...{ modelledPrefillMs: at(88), modelledRevisitMs: at(88) },
  ...changes,
})

const withTotals = (counters: Partial<HistoryCounters>): Partial<ReuseRunEntry> => ({
  history: { ...goodHistory, ...counters },
})
const withRevisits = (counters: Partial<HistoryCounters>): Partial<ReuseRunEntry> => ({
  revisitHistory: { ...goodHistory, ...counters },
})

describe('counters', () => {
  it('of a good run pass in the hot set, and in the capacity tier', () => {
    expect(counterChecks(history, workload('hot'))).toEqual([])
    expect(counterChecks(history, workload('capacity-tier'))).toEqual([])
  })

  it.each<[Partial<ReuseRunEntry>, RegExp]>([
    [withTotals({ finished: 99 }), /100 tickets registered and 99 finished, for 100 requests/],
    [withTotals({ registered: 99, finished: 99 }), /for 100 requests/],
    [withTotals({ expired: 1 }), /1 tickets expired/],
    [withTotals({ failures: 2 }), /2 failures of the history/],
    [withTotals({ networkHostBatches: 3 }), /3 host batches over the network/],
    [withTotals({ hitBlocks: 97 }), /97 hits, but 16 and 80 by tier/],
    [withRevisits({ loads: 9 }), /9 history loads for 10 revisits/],
    [withRevisits({ loads: 11 }), /11 history loads for 10 revisits/],
    [withRevisits({ hitBlocks: 94 }), /94\.0 % of their blocks/],
    [withRevisits({ deviceHitBlocks: 0 }), /0 blocks from the device tier/],
    [withRevisits({ hostHitBlocks: 0 }), /0 from the host tier/],
    [{ missingCounters: ['history_hit_blocks'] }, /doesn't report history_hit_blocks/],
  ])('%j fails the hot set', (bad, text) => {
    const failures = counterChecks({ ...history, ...bad }, workload('hot'))
    expect(failures).toHaveLength(1)
    expect(failures[0]).toMatch(text)
  })

  it('requests that are served together may load again, but not less often', () => {
    const withLoads = (loads: number) =>
      counterChecks({ ...history, ...withRevisits({ loads }) }, workload('hot', 4))
    expect(withLoads(11)).toEqual([])
    expect(withLoads(9)).toHaveLength(1)
  })

  it('the changing set is a negative control only with rejections and clearly fewer hits', () => {
    const half = withRevisits({ hitBlocks: 50 })
    const failuresOf = (changes: Partial<ReuseRunEntry>) =>
      counterChecks({ ...history, ...changes }, workload('changing'))
    expect(failuresOf(half)).toEqual([])
    expect(failuresOf({ ...half, ...withTotals({ rejectedBlocks: 0 }) })).toEqual([
      'xavier: admission rejected nothing: the history was never full',
    ])
    expect(failuresOf({})[0]).toMatch(/96\.0 % of their blocks: no negative control/)
  })

  it('the capacity tier needs hits in both, most in the host tier, and demotions', () => {
    const failuresOf = (changes: Partial<HistoryCounters>) =>
      counterChecks({ ...history, ...withTotals(changes) }, workload('capacity-tier'))
    expect(failuresOf({ deviceHitBlocks: 0, hitBlocks: 80 })).toHaveLength(1)
    expect(failuresOf({ deviceHitBlocks: 80, hitBlocks: 160 })).toHaveLength(1)
    expect(failuresOf({ demotions: 0 })).toEqual(['xavier: nothing was demoted'])
  })

  it('controls have none: not of a history, and tickets only where there are tickets', () => {
    const tickets = counted({ registered: 100, finished: 100 })
    const off = control('xavier-no-history', { role: 'no-history', history: tickets })
    expect(counterChecks(off, workload('hot'))).toEqual([])
    expect(counterChecks(control('pull'), workload('hot'))).toEqual([])
    const saving = { ...off, history: { ...tickets, savedBlocks: 4 } }
    expect(counterChecks(saving, workload('hot'))[0]).toMatch(/a control counted savedBlocks 4/)
  })

  it('a baseline may have tickets, which then have to add up', () => {
    const tickets = counted({ registered: 100, finished: 100 })
    expect(counterChecks(control('xavier', { history: tickets }), workload('hot'))).toEqual([])
    const lost = control('xavier', { history: { ...tickets, finished: 99 } })
    expect(counterChecks(lost, workload('hot'))[0]).toMatch(/100 tickets registered and 99/)
  })
})

const noise = {
  method: 'split-half' as const,
  label: 'pull',
  metrics: { 'revisitTtftMs.p50': { a: 100, b: 102, relativeDifference: 0.02 } },
}

const verdictsOf = (
  workingSet: ReuseWorkload['workingSet'],
  runs: readonly ReuseRunEntry[],
): Record<string, string> =>
  Object.fromEntries(
    reuseBars(workload(workingSet), runs, noise).map(({ rule, verdict }) => [rule, verdict]),
  )

describe('bars of the hot set', () => {
  const pull = control('pull')
  const others = [pull, control('pull-matched', { role: 'matched' })]

  it('hold where the gain is what the model says: 80 ms skipped less 20 ms of restoring', () => {
    const bars = reuseBars(workload('hot'), [...others, history], noise)
    expect(bars).toHaveLength(10)
    // Of callers that wait for one another's prefill the model says nothing.
    const crowded = reuseBars(workload('hot', 4), [...others, history], noise)
    expect(crowded).toEqual(bars.slice(3))
    expect(bars.every(({ verdict }) => verdict === 'held')).toBe(true)
    expect(bars[0]).toMatchObject({ value: 0, limit: 0.15, subject: 'xavier' })
    expect(bars[0]?.note).toBe('measured 60.0 ms, modelled 60.0 ms')
    expect(bars.at(-1)?.value).toBeCloseTo(62 / 60, 5)
  })

  it('are missed by a gain that the model does not explain, smaller or larger', () => {
    for (const ms of [50, 30]) {
      const verdicts = verdictsOf('hot', [pull, { ...history, revisitTtftMs: at(ms) }])
      expect(
        verdicts[
          'revisit TTFT p50: reduction against pull within 15 % of skipped prefill − restore'
        ],
      ).toBe('missed')
    }
  })

  it('are missed where a control is as fast, or where P’s call does not explain the gain', () => {
    const fast = control('pull-matched', { role: 'matched', revisitTtftMs: at(40) })
    expect(verdictsOf('hot', [pull, fast, history])).toMatchObject({
      "revisit TTFT p95 lower than pull-matched's": 'missed',
      "revisit TTFT p95 lower than pull's": 'held',
    })
    const unexplained = { ...history, prefillCallMs: at(40) }
    expect(verdictsOf('hot', [pull, unexplained])).toMatchObject({
      'prefillCallMs explains at least 80 % of the gain against pull, mean': 'missed',
    })
  })

  it('are not judged without a number, and there are none without a history or a baseline', () => {
    const silent = { ...history, modelledRevisitMs: createDistribution([]) }
    const [bar] = reuseBars(workload('hot'), [pull, silent], noise)
    expect(bar).toMatchObject({ verdict: 'not-judged', value: null, limit: null })
    expect(reuseBars(workload('hot'), [pull], noise)).toEqual([])
    expect(reuseBars(workload('hot'), [history], noise)).toEqual([])
    expect(reuseBars(workload('capacity-tier'), [pull, history], noise)).toEqual([])
  })

  it('are against pull where it ran, whatever else did', () => {
    const push = control('push')
    const [bar] = reuseBars(workload('hot'), [push, pull, history], noise)
    expect(bar?.rule).toContain('against pull ')
  })
})

describe('bars of the changing set', () => {
  const pull = control('pull')
  const like = (changes: Partial<ReuseRunEntry>) =>
    Object.values(verdictsOf('changing', [pull, { ...history, ...changes }]))

  it('mean lower, median within the noise, immediate repeats within 10 %', () => {
    expect(like({})).toEqual(['held', 'held', 'held'])
    expect(like({ revisitTtftMs: createDistribution([101.9, 101.9, 1]) })).toEqual([
      'held',
      'held',
      'held',
    ])
    expect(like({ revisitTtftMs: at(102.1) })).toEqual(['missed', 'missed', 'held'])
    expect(like({ immediateTtftMs: at(33.1) })).toEqual(['held', 'held', 'missed'])
  })
})

describe('the verdict', () => {
  const fine = {
    ...history,
    ...{ valid: true, failed: 0, errors: [], mismatchedBlocks: 0, bytesVerified: true },
    ...{ blocksHeldAtEnd: 0, outputDigest: 'a' },
  }
  const missed = reuseBars(
    workload('hot'),
    [control('pull'), { ...history, revisitTtftMs: at(99) }],
    noise,
  )

  it('takes a missed bar for a warning, and for a failure where validity is required', () => {
    const quick = judgeExperiment([fine], [], missed, false)
    expect(quick.ok).toBe(true)
    expect(quick.warnings[0]).toMatch(/^xavier: bar missed: revisit TTFT p50: .*limit 0\.15/)
    const full = judgeExperiment([fine], [], missed, true)
    expect(full.ok).toBe(false)
    expect(full.failures).toEqual(quick.warnings)
  })

  it('decides nothing about bars where a run lies outside the overrun guard', () => {
    const runs = [
      { label: 'pull', valid: true },
      { label: 'xavier', valid: false },
    ]
    const open = unlessInvalid(missed, runs)
    expect(open.map(({ verdict }) => verdict)).toEqual(missed.map(() => 'not-judged'))
    expect(open[0]?.value).toBe(missed[0]?.value)
    expect(open[0]?.note).toMatch(/ms; outside the overrun guard: xavier$/)
    expect(judgeExperiment([fine], [], open, false).warnings).toEqual([])
    expect(unlessInvalid(missed, runs.slice(0, 1))).toEqual(missed)
  })

  it('fails for texts that differ, for what is wrong in a run, and for counters', () => {
    const other = { ...fine, label: 'pull', outputDigest: 'b' }
    expect(judgeExperiment([fine, other], [], [], false).failures).toEqual([
      'pull: texts differ from those of xavier',
    ])
    expect(judgeExperiment([{ ...fine, blocksHeldAtEnd: 1 }], [], [], false).ok).toBe(false)
    expect(judgeExperiment([fine], ['a counter'], [], false).failures).toEqual(['a counter'])
  })
})
