/**
 * The whole `reuse` command over fake programs, one of them with a history: which runs it makes, that the
 * published protocols are what it sends, and that each counter that contradicts the experiment fails it.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import type { ReuseResult, ReuseRunEntry } from '../src/reuse/result.ts'
import {
  experimentOnFakes,
  fakeConnector,
  fakeHistoryConnector,
  type FakeExperiment,
} from './fake-programs.ts'

const both = ['--connectors', `${fakeConnector},${fakeHistoryConnector}`]
const historyOnly = ['--connectors', fakeHistoryConnector, '--controls', 'none']

const reuse = (
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<FakeExperiment<ReuseResult>> => experimentOnFakes(['reuse', ...args], environment)

const runOf = (result: ReuseResult | null, label: string): ReuseRunEntry =>
  result?.runs.find((run) => run.label === label) as ReuseRunEntry

describe('reuse with a stable hot set', () => {
  let experiment: FakeExperiment<ReuseResult>
  beforeAll(async () => {
    experiment = await reuse([...both, '--working-set', 'hot'])
  })

  it('runs what was named with all its controls, a baseline first', () => {
    const { exitCode, stderr, result } = experiment
    expect(exitCode, stderr).toBe(0)
    expect(result?.runs.map(({ label, role }) => [label, role])).toEqual([
      ['fake', 'baseline'],
      ['fake-matched', 'matched'],
      ['keeper', 'history'],
      ['keeper-no-history', 'no-history'],
    ])
    expect(result?.runs.map(({ blockCount }) => blockCount)).toEqual([512, 1_194, 512, 512])
  })

  it('sends the published 125 requests: 24 immediate repeats and 24 revisits', () => {
    const { result } = experiment
    expect(result?.workload).toMatchObject({ requests: 125, cycles: 6, prefixCaching: 'on' })
    const run = runOf(result, 'keeper')
    expect(run.requests).toBe(124)
    expect([run.immediateTtftMs.count, run.revisitTtftMs.count]).toEqual([24, 24])
    expect(run.cycles.map(({ revisitTtftMs }) => revisitTtftMs.count)).toEqual([4, 4, 4, 4, 4, 4])
    expect(run.point).toMatchObject({ qps: null, concurrency: 1, inputTokens: 2_000 })
  })

  it('gives the history a budget in the published ratio, and its control none', () => {
    const { result } = experiment
    expect(runOf(result, 'keeper').options).toEqual({
      ...{ gpuCacheBytes: 682 * 16_384, hostBlockCount: 219 },
    })
    expect(runOf(result, 'keeper-no-history').options).toEqual({ gpuCacheBytes: 0 })
    expect(result?.workload.historyBlocks).toBe(682)
  })

  it('shows where revisits came from: the history, and nothing in the controls', () => {
    const { result } = experiment
    const run = runOf(result, 'keeper')
    expect(run.revisitHistory).toMatchObject({ loads: 24, hitBlocks: 24 * 124 })
    // The fake keeps complete blocks only, not the one that lacks the last token.
    expect(run.revisitBlocks).toBe(24 * 125)
    expect(run.restoredTokens).toMatchObject({ count: 24, p50: 124 * 16 })
    expect(run.restoreMs.count).toBe(24)
    expect(run.history).toMatchObject({ registered: 125, finished: 125, expired: 0 })
    for (const label of ['fake', 'fake-matched', 'keeper-no-history']) {
      expect(runOf(result, label).revisitHistory.hitBlocks).toBe(0)
      expect(runOf(result, label).restoreMs.count).toBe(0)
    }
  })

  it('knows what the engine models for a whole prompt and for what a restore leaves', () => {
    const { result } = experiment
    // 2,000 tokens of the tiny preset: 0.04 ms each, 4 ns a pair, 0.05 ms a sequence.
    expect(runOf(result, 'fake').modelledPrefillMs.p50).toBeCloseTo(88.05, 5)
    const keeper = runOf(result, 'keeper')
    expect(keeper.modelledPrefillMs.p50).toBeCloseTo(8.05, 5)
    expect(keeper.modelledRevisitMs.mean).toBeCloseTo(8.05 + (keeper.restoreMs.mean as number), 5)
    expect(runOf(result, 'fake').prefillCallMs.count).toBe(24)
  })

  it('judges the bars of the hot set, with a noise floor beside them', () => {
    const { result } = experiment
    // 3 against the model, 3 against each of 3 controls, 1 of the prefill call.
    expect(result?.bars).toHaveLength(13)
    expect(new Set(result?.bars.map(({ subject }) => subject))).toEqual(new Set(['keeper']))
    expect(result?.noiseFloor).toMatchObject({ method: 'split-half', label: 'fake' })
    expect(result?.noiseFloor.metrics['revisitTtftMs.p95']?.a).toBeGreaterThan(0)
  })

  it('fits its schema, which refuses a result without revisits', () => {
    const { result } = experiment
    expect(() => assertMatchesSchema('reuse', result)).not.toThrow()
    const [run, ...others] = result?.runs ?? []
    const incomplete = { ...run, revisitTtftMs: undefined }
    const broken = JSON.parse(
      JSON.stringify({ ...result, runs: [incomplete, ...others] }),
    ) as unknown
    expect(() => assertMatchesSchema('reuse', broken)).toThrow(/revisitTtftMs/)
  })
})

describe('reuse with other working sets', () => {
  it('changing: 73 requests, rejections, and clearly fewer hits', async () => {
    const { exitCode, stderr, result } = await reuse([...both, '--working-set', 'changing'])
    expect(exitCode, stderr).toBe(0)
    expect(result?.workload.requests).toBe(73)
    expect(result?.runs.map(({ label }) => label)).toEqual(['fake', 'keeper', 'keeper-no-history'])
    const { history, revisitHistory, revisitBlocks } = runOf(result, 'keeper')
    expect(history.rejectedBlocks).toBeGreaterThan(0)
    expect(revisitHistory.hitBlocks).toBeLessThan(0.8 * revisitBlocks)
    expect(result?.bars).toHaveLength(3)
  })

  it('capacity-tier: 132 requests without prefix caching, a budget of five blocks', async () => {
    const { exitCode, stderr, result } = await reuse([...both, '--working-set', 'capacity-tier'])
    expect(exitCode, stderr).toBe(0)
    expect(result?.workload).toMatchObject({ requests: 132, prefixCaching: 'off' })
    expect(result?.runs.map(({ label }) => label)).toEqual([
      'fake',
      'keeper-tiny-budget',
      'keeper-no-history',
    ])
    const run = runOf(result, 'keeper-tiny-budget')
    expect(run.options).toEqual({ gpuCacheBytes: 5 * 16_384 })
    expect(run.history.hostHitBlocks).toBeGreaterThan(run.history.deviceHitBlocks)
    expect(result?.bars).toEqual([])
  })

  it('without a history there is nothing to judge, and the command says so', async () => {
    const args = ['--connectors', fakeConnector, '--cycles', '1', '--concurrency', '4']
    const { exitCode, stderr, result } = await reuse([...args, '--controls', 'none'])
    expect(exitCode, stderr).toBe(0)
    expect(result?.runs.map(({ label }) => label)).toEqual(['fake'])
    expect(result?.bars).toEqual([])
    expect(runOf(result, 'fake').trials[0]?.peakConcurrency).toBe(4)
  })

  it('takes a budget that was spelt out as it is', async () => {
    const spelt = `${fakeHistoryConnector}:gpuCacheBytes=20000000`
    const args = ['--connectors', `${spelt},${fakeHistoryConnector}:gpuCacheBytes=0`]
    const { exitCode, stderr, result } = await reuse([...args, '--cycles', '1'])
    expect(exitCode, stderr).toBe(0)
    expect(result?.runs.map(({ label, options }) => [label, options])).toEqual([
      ['keeper-gpuCacheBytes=20000000', { gpuCacheBytes: 20_000_000 }],
      ['keeper-no-history', { gpuCacheBytes: 0 }],
    ])
  })
})

describe('reuse over a history that counts what it should not', () => {
  it('names each of them', async () => {
    const args = [...historyOnly, '--cycles', '1']
    const faults = 'miscount-hits,forget-tier,expire,fail,leak-ticket'
    const { exitCode, stderr } = await reuse(args, { FAKE_PRODUCER_FAULT: faults })
    for (const text of [
      /keeper: \d+ hits, but \d+ and \d+ by tier/,
      /0 blocks from the device tier/,
      /1 tickets expired/,
      /1 failures of the history/,
      /25 tickets registered and 23 finished, for 25 requests/,
    ]) {
      expect(stderr).toMatch(text)
    }
    expect(exitCode).toBe(1)
  })

  it('a history that reports nothing of itself', async () => {
    const args = [...historyOnly, '--cycles', '1']
    const { exitCode, stderr } = await reuse(args, { FAKE_PRODUCER_FAULT: 'hide-counters' })
    expect(stderr).toMatch(/doesn't report ticketsFinished, leasesExpired, historyLoadedRequests/)
    expect(exitCode).toBe(1)
  })

  it('a control that counts something', async () => {
    const args = ['--connectors', `${fakeHistoryConnector}:gpuCacheBytes=0`, '--cycles', '1']
    const { exitCode, stderr } = await reuse(args, { FAKE_PRODUCER_FAULT: 'count-in-control' })
    expect(stderr).toMatch(/a control counted savedBlocks/)
    expect(exitCode).toBe(1)
  })

  it('a wrong byte anywhere', async () => {
    const args = ['--connectors', fakeConnector, '--cycles', '2', '--controls', 'none']
    const { exitCode, stderr } = await reuse(args, { FAKE_FAULT: 'mismatch' })
    expect(stderr).toMatch(/1 KV blocks held wrong bytes/)
    expect(exitCode).toBe(1)
  })
})

describe('reuse used wrongly', () => {
  it.each([
    [['--working-set', 'warm'], /--working-set warm: use one of hot, changing, capacity-tier/],
    [['--concurrency', '3'], /--concurrency 3/],
    [['--cycles', '0'], /--cycles 0/],
    [['--model', 'huge'], /model/],
    [['--kv-scale', '3'], /--kv-scale: kvScale.* use a power of two/],
    [['--num-blocks', '128'], /--num-blocks 128: use a number from 256 to 1046 \(blocks of 16/],
    [['--num-blocks', '1047'], /--num-blocks 1047: use a number from 256 to 1046/],
  ])('%j', async (args, text) => {
    const { exitCode, stderr } = await reuse(['--connectors', fakeConnector, ...args])
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(text)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })
})
