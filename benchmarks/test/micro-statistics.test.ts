/** Paired statistics, bars and the result's form: known numbers in, known verdicts out. */
import { describe, expect, it } from 'vitest'
import { createDistribution } from '../src/lib/distribution.ts'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import { readEnvironment } from '../src/lib/environment.ts'
import {
  atMost,
  comparePairs,
  interleave,
  medianInterval,
  onlyReported,
  spreadOf,
  throughputBar,
} from '../src/micro/pair-statistics.ts'
import { skippedPython } from '../src/micro/python-case.ts'
import type { MicroResult } from '../src/micro/result.ts'
import { renderMicro } from '../src/micro/table.ts'

const pairsOf = (ratios: readonly number[]) =>
  ratios.map((ratio) => ({ aNs: 1_000 * ratio, bNs: 1_000 }))

describe('paired statistics', () => {
  it('compares within pairs, so that drift cancels out', () => {
    const drifting = Array.from({ length: 200 }, (_, i) => ({ aNs: 100 + i, bNs: 2 * (100 + i) }))
    expect(comparePairs(drifting).ratio.p50).toBe(0.5)
    expect(comparePairs(drifting).medianInterval).toEqual([0.5, 0.5])
  })

  it('encloses the median by the ranks of the binomial, clamped to what was observed', () => {
    const hundred = Array.from({ length: 100 }, (_, i) => i + 1)
    // Ranks 40 and 61 of 100 enclose the median with at least 95 %.
    expect(medianInterval(hundred)).toEqual([40, 61])
    expect(medianInterval([3, 1, 2])).toEqual([1, 3])
    expect(() => medianInterval([])).toThrow(RangeError)
  })

  it('takes the far end of the A-A interval for the spread', () => {
    const ratios = Array.from({ length: 100 }, (_, i) => 0.9 + i * 0.002)
    const { medianInterval: interval } = comparePairs(pairsOf(ratios))
    const expected = Math.max(1 - interval[0], interval[1] - 1)
    expect(spreadOf(comparePairs(pairsOf(ratios)))).toBeCloseTo(expected, 12)
  })

  it.each([
    [0.95, 0, 'pass'],
    [0.94, 0, 'fail'],
    [0.94, 0.02, 'pass'],
    [0.92, 0.02, 'fail'],
    [1.2, 0.3, 'too-noisy'],
  ])('judges a ratio of %f with a spread of %f: %s', (ratio, spread, verdict) => {
    const paired = comparePairs(pairsOf([ratio, ratio, ratio]))
    const bar = throughputBar(paired, spread, { ratioMin: 0.95, spreadMax: 0.2 })
    expect(bar.verdict).toBe(verdict)
  })

  it('swaps who goes first, runs one at a time, and drops the warm-up', async () => {
    const calls: string[] = []
    const side = (name: string) => async () => {
      calls.push(`${name}>`)
      await Promise.resolve()
      calls.push(`<${name}`)
      return calls.length
    }
    let ticks = 0
    const options = { count: 2, warmUpCount: 1, onPair: () => void ticks++ }
    const pairs = await interleave(side('a'), side('b'), options)
    const order = calls.filter((call) => call.endsWith('>')).join('')
    expect(order).toBe('b>a>a>b>b>a>')
    expect(calls.join('')).not.toMatch(/>[ab]>/)
    expect(pairs).toHaveLength(2)
    expect(ticks).toBe(2)
  })
})

const ratio = createDistribution([0.96, 0.97, 0.98])
const us = createDistribution([10, 20, 30])
const environment = { seed: 0, nixl: '1.5.1', ucx: null, transports: ['cma'], deviceTier: 'host' }
const result: MicroResult = {
  schema: 'kvferry.micro/1',
  agent: 'nixl',
  environment: readEnvironment(environment),
  workload: { pairs: 3, baseline: 'b', memory: 'm', variables: { UCX_NET_DEVICES: 'lo' } },
  noiseFloor: { method: 'a-a-pairs', label: '16 MiB × 4', spread: 0.01 },
  cases: [
    {
      kind: 'throughput',
      label: '16 MiB × 4',
      direction: 'read',
      sizeBytes: 16_777_216,
      depth: 4,
      descriptors: { countPerTransfer: 256, sizeBytes: 65_536 },
      pairs: 3,
      oursUs: us,
      bareUs: us,
      ratio,
      ratioMedianInterval: [0.96, 0.98],
      noise: { ratio, ratioMedianInterval: [0.99, 1.01], spread: 0.01 },
      bar: { rule: 'r', limit: 0.94, value: 0.97, verdict: 'pass' },
    },
    { kind: 'post-js-thread', label: 'post', us, bar: atMost('r', 31, 30) },
    {
      kind: 'polling-cpu',
      label: 'polling',
      durationMs: 3_000,
      share: 0.0251,
      bar: onlyReported('r', 0.0251),
    },
    skippedPython('no Python was named'),
    {
      ...skippedPython(''),
      skipped: null,
      oursUs: us,
      pythonUs: createDistribution([71.5]),
      bar: atMost('r', 0.28, 1 / 3),
    },
  ],
  verdict: { ok: false, failures: ['post: 31 (bar: 30)'] },
}

describe('micro result', () => {
  it('matches its published schema, which refuses what it does not know', () => {
    expect(() => assertMatchesSchema('micro', result)).not.toThrow()
    const [first, ...others] = result.cases
    const { bar: _bar, ...withoutBar } = first as (typeof result.cases)[0]
    expect(_bar.verdict).toBe('pass')
    const wrong = [
      { ...result, cases: [withoutBar, ...others] },
      { ...result, cases: [{ ...first, kind: 'other' }] },
      { ...result, verdict: { ok: 'yes', failures: [] } },
      { ...result, cases: [] },
    ]
    for (const each of wrong) expect(() => assertMatchesSchema('micro', each)).toThrow('schema')
  })

  it('is shown with its numbers and verdicts', () => {
    const text = renderMicro(result)
    for (const part of [
      'cma',
      '0.970',
      '0.940',
      'pass',
      'FAIL',
      '20.0 µs',
      '2.51 %',
      'post: 31',
      '71.5',
      '0.280',
      'no Python was named',
    ]) {
      expect(text).toContain(part)
    }
  })
})
