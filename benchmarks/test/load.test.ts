/**
 * The whole `load` command over fake programs: the phases that it makes, what it shows of each, and that
 * tickets which don't add up fail it.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import type { LoadResult, LoadRunEntry } from '../src/load/result.ts'
import {
  experimentOnFakes,
  fakeConnector,
  fakeHistoryConnector,
  type FakeExperiment,
} from './fake-programs.ts'

// Background answers of 256 tokens last well over two seconds; the last cold arrival comes after 0.13.
const slowDecode = { FAKE_LONG_TOKEN_MS: '10' }
const short = ['--requests', '20', '--time-scale', '0.1']

const load = (
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<FakeExperiment<LoadResult>> =>
  experimentOnFakes(['load', ...short, ...args], { ...slowDecode, ...environment })

describe('load over programs that work', () => {
  let experiment: FakeExperiment<LoadResult>
  let runs: readonly LoadRunEntry[]
  beforeAll(async () => {
    const connectors = [
      fakeConnector,
      fakeHistoryConnector,
      `${fakeHistoryConnector}:staging=snapshot`,
    ]
    experiment = await load(['--connectors', connectors.join(',')])
    runs = experiment.result?.runs ?? []
  })

  it('runs each configuration, and knows which has tickets and which stages a snapshot', () => {
    const { exitCode, stderr } = experiment
    expect(exitCode, stderr).toBe(0)
    expect(runs.map(({ label, role }) => [label, role])).toEqual([
      ['fake', 'other'],
      ['keeper', 'direct'],
      ['keeper-snapshot', 'snapshot'],
    ])
  })

  it('has four phases: one, 16 and 32 callers, then arrivals beside eight decodes', () => {
    for (const { phases } of runs) {
      expect(Object.values(phases).map(({ requests }) => requests)).toEqual([11, 20, 20, 40])
      expect(Object.values(phases).map(({ concurrency }) => concurrency)).toEqual([1, 16, 32, null])
      expect(phases.c16.outputTokensPerSByTrial).toEqual([phases.c16.outputTokensPerS])
      expect(phases.c32.ttftMs.count).toBe(20)
    }
    expect(experiment.result?.workload.requests).toBe(12 + 20 + 20 + 40)
  })

  it('shows the cold arrivals by themselves, all of them during decode', () => {
    for (const run of runs) {
      expect(run.coldArrivalTtftMs.count).toBe(32)
      expect([run.coldDuringDecode, run.coldArrivals]).toEqual([32, 32])
      expect(run.backgroundTpotMs.count).toBe(8)
      expect(run.coldBreakdown.wire.count).toBe(32)
      const { handOver, dispatch, post, wire } = run.coldBreakdown
      const parts = [handOver, dispatch, post, wire].map(({ mean }) => mean ?? Number.NaN)
      expect(run.coldPathMs.mean).toBeCloseTo(parts.reduce((sum, mean) => sum + mean))
    }
  })

  it('judges the bars for which there is something to compare with', () => {
    const { result } = experiment
    // No pull among the fakes: only those against the snapshot are left.
    expect(result?.bars.map(({ subject, rule }) => [subject, rule])).toEqual([
      ['keeper', "cold arrivals' KV on D, p50, sooner after P's end than keeper-snapshot's"],
      ['keeper', "cold arrivals' TTFT p50 at most keeper-snapshot's and its noise"],
      ['keeper', "cold arrivals' TTFT p95 at most keeper-snapshot's and its noise"],
    ])
    expect(result?.noiseFloor.metrics['coldArrivalTtftMs.p95']?.b).toBeGreaterThan(0)
  })

  it('fits its schema, which refuses a result without cold arrivals', () => {
    const { result } = experiment
    expect(() => assertMatchesSchema('load', result)).not.toThrow()
    const [run, ...others] = result?.runs ?? []
    const incomplete = { ...run, coldArrivalTtftMs: undefined }
    const broken = JSON.parse(
      JSON.stringify({ ...result, runs: [incomplete, ...others] }),
    ) as unknown
    expect(() => assertMatchesSchema('load', broken)).toThrow(/coldArrivalTtftMs/)
  })
})

it('load over tickets that were lost, and expired', async () => {
  const args = ['--connectors', fakeHistoryConnector]
  const { exitCode, stderr } = await load(args, { FAKE_PRODUCER_FAULT: 'leak-ticket,expire' })
  expect(stderr).toMatch(/keeper: 92 tickets registered and 83 finished, for 92 requests/)
  expect(stderr).toMatch(/keeper: 1 tickets expired/)
  expect(exitCode).toBe(1)
})

it.each([
  [['--num-blocks', '63'], /--num-blocks 63: use a number from 64 to 1048576 \(blocks of 16/],
  [['--model', 'huge'], /--model, --kv-scale: model/],
  [['--requests', '0'], /--requests 0: use a number from 1/],
])('load used wrongly: %j', async (args, text) => {
  const { exitCode, stderr } = await load(['--connectors', fakeConnector, ...args])
  expect(stderr).toMatch(text)
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(exitCode).toBe(2)
})
