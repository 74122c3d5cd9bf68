/** `doctor --rates`: what is measured, how long it may take, what is cut off, and what is said of it. */
import './fake-cuda.ts'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { CudaInfo, GpuLink } from '../src/cuda.ts'
import { RateMeter } from '../src/doctor/rates-meter.ts'
import {
  planPoints,
  rateBlockSizes,
  rateLimits,
  repeatsWithin,
  scattered,
  unmeasured,
  whyNot,
  type RateResult,
} from '../src/doctor/rates-plan.ts'
import { openPool } from '../src/doctor/rates-pool.ts'
import { openRateTarget, type RateAnswer, type RateQuestion } from '../src/doctor/rates-target.ts'
import { rateFinding, ratesText } from '../src/doctor/rates-text.ts'
import { pairsOf, type PairRates } from '../src/doctor/rates.ts'
import { createKernels } from '../src/index.ts'
import { fakeLibraryPath } from './fake-library.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

const mib = 1_048_576
const stalled = 'KVFERRY_FAKE_CUDA_STALLED'

describe('the plan', () => {
  test('every path, both ways, three block sizes; what is fast comes first', () => {
    const points = planPoints(['descriptors', 'slabs', 'ipc'])
    expect(points).toHaveLength(3 * 2 * rateBlockSizes.length)
    expect(points[0]).toEqual({ path: 'ipc', direction: 'write', blockBytes: 4_096 })
    expect(points.at(-1)).toEqual({ path: 'descriptors', direction: 'read', blockBytes: 2 * mib })
    expect(planPoints(['descriptors']).every(({ path }) => path === 'descriptors')).toBe(true)
  })

  test('no more transfers than end within the limit, after one to warm up; none where one is too slow', () => {
    const at = (gigabytesPerSecond: number) => ({
      bytes: 4 * mib,
      us: (4 * mib) / gigabytesPerSecond / 1_000,
    })
    expect(repeatsWithin(at(350), 256 * mib, 2_000)).toBe(rateLimits.repeatCountMax)
    // 0.31 s each: six fit, of which the first is for nothing.
    expect(repeatsWithin(at(0.87), 256 * mib, 2_000)).toBe(5)
    expect(repeatsWithin(at(0.1), 256 * mib, 2_000)).toBe(0)
    for (const rate of [0.1, 0.3, 0.87, 5, 100]) {
      const eachMs = (256 * mib) / rate / 1e6
      expect((repeatsWithin(at(rate), 256 * mib, 2_000) + 1) * eachMs).toBeLessThanOrEqual(
        Math.max(2_000, eachMs),
      )
    }
  })

  test('more blocks than a transfer may have, and fewer than two, are no point', () => {
    const point = (blockBytes: number) => ({ path: 'ipc', direction: 'read', blockBytes }) as const
    expect(whyNot(point(4_096), 256 * mib)).toBe(null)
    expect(whyNot(point(4_096), 1_024 * mib)).toMatch(/blocksPerPostMax \(65536\)/)
    expect(whyNot(point(2 * mib), 2 * mib)).toMatch(/fewer than two/)
  })

  test('half of the places, each once, in another order', () => {
    const ids = scattered(64, 11)
    expect([ids.length, new Set(ids).size]).toEqual([32, 32])
    expect([...ids]).not.toEqual([...ids].sort((a, b) => a - b))
    expect([...scattered(64, 22)]).not.toEqual([...ids])
  })

  test('pairs: each two GPUs once, one with itself, host memory without any', () => {
    const gpu = (ordinal: number) => ({ ordinal }) as CudaInfo['gpus'][number]
    const link = (from: number, to: number): GpuLink => ({
      ...{ from, to, hasAccess: true, hasNativeAtomics: true, performanceRank: 0 },
    })
    const of = (count: number) =>
      pairsOf({
        gpus: Array.from({ length: count }, (_, ordinal) => gpu(ordinal)),
        links: [link(0, 1), link(1, 0), link(0, 2), link(2, 0), link(1, 2), link(2, 1)],
      } as unknown as CudaInfo).map(({ from, to }) => [from, to])
    expect(of(3)).toEqual([
      [0, 1],
      [0, 2],
      [1, 2],
    ])
    expect(of(1)).toEqual([[0, 0]])
    expect(pairsOf(null)).toEqual([{ from: null, to: null, link: null }])
  })
})

describe('one point, over the fake driver', () => {
  const totalBytes = 8 * mib
  const point = { path: 'ipc', direction: 'write', blockBytes: 65_536 } as const
  let meter: RateMeter
  let ask: (question: RateQuestion) => Promise<RateAnswer>
  let count = 0

  beforeEach(async () => {
    const target = await openRateTarget({ device: 0, totalBytes, blockSizes: rateBlockSizes })
    ask = target.answer
    count += 1
    meter = await RateMeter.open({
      ...{ name: `meter-${process.pid}-${count}`, device: 0, totalBytes, facts: target.facts },
      ...{ pool: openPool(0, 2 * totalBytes), kernels: createKernels(), ask: (all) => ask(all) },
    })
  })
  afterEach(() => {
    delete process.env[stalled]
  })

  test.each(['write', 'read'] as const)(
    'by each path, %s: measured, and right',
    async (direction) => {
      expect(meter.paths).toEqual(['descriptors', 'slabs', 'ipc'])
      for (const path of meter.paths) {
        const result = await meter.measure({ ...point, path, direction }, 60_000)
        expect(result).toMatchObject({ outcome: 'measured', bytes: totalBytes, wrongSlots: 0 })
        expect(result.us).toHaveLength(rateLimits.repeatCountMax)
        expect(result.gigabytesPerSecond).toBeGreaterThan(0)
      }
    },
  )

  test('a path that is too slow is cut off: the sample’s rate, and its slots are right', async () => {
    const noTimeMs = 0.001
    const result = await meter.measure(point, noTimeMs, 60_000)
    expect(result).toMatchObject({ outcome: 'cut-off', wrongSlots: 0, detail: null })
    expect(result.bytes).toBe(rateLimits.sampleSizeBytes)
    expect(result.gigabytesPerSecond).toBeGreaterThan(0)
    expect(meter.isStuck).toBe(false)
  })

  test('wrong bytes are a failure, with how many', async () => {
    const answer = ask
    ask = async (question) => {
      const found = await answer(question)
      if (question.kind === 'digest') found![3]! ^= 1n
      return found
    }
    expect(await meter.measure(point, 60_000)).toMatchObject({
      ...{ outcome: 'failed', wrongSlots: 1, detail: '1 slots of 4 KiB are wrong' },
    })
  })

  test('what a target can’t answer is a failure with its reason, and the next point is measured', async () => {
    const answer = ask
    ask = () => Promise.reject(new Error('no kernels there'))
    const failed = await meter.measure(point, 60_000)
    expect(failed).toMatchObject({ outcome: 'failed', detail: 'no kernels there' })
    ask = answer
    expect(await meter.measure(point, 60_000)).toMatchObject({ outcome: 'measured' })
  })

  test('a transfer without an end: cut off at the limit, and the meter is stuck', async () => {
    const answer = ask
    ask = async (question) => {
      const found = await answer(question)
      // The last question before the transfers.
      if (question.kind === 'spoil') process.env[stalled] = '1'
      return found
    }
    const result = await meter.measure(point, 100)
    expect(result).toMatchObject({ outcome: 'cut-off', gigabytesPerSecond: null })
    expect(result.detail).toMatch(/not ended after 100 ms/)
    expect(meter.isStuck).toBe(true)
  })
})

const result = (more: Partial<RateResult>): RateResult => ({
  ...unmeasured({ path: 'ipc', direction: 'write', blockBytes: 4_096 }, 'skipped', ''),
  ...{ outcome: 'measured', gigabytesPerSecond: 350 },
  ...more,
})
const pair = (more: Partial<PairRates>): PairRates => ({
  ...{ from: 0, to: 1, paths: ['descriptors', 'ipc'], results: [], problem: null },
  link: { from: 0, to: 1, hasAccess: true, hasNativeAtomics: true, performanceRank: 0 },
  ...more,
})

describe('what is said', () => {
  test('rows of paths, WRITE / READ, and what was cut off, left out or wrong', () => {
    const text = ratesText(
      pair({
        results: [
          result({ gigabytesPerSecond: 358 }),
          result({ direction: 'read', gigabytesPerSecond: 299 }),
          result({
            path: 'descriptors',
            direction: 'read',
            outcome: 'cut-off',
            gigabytesPerSecond: 0.1,
          }),
          result({ path: 'descriptors', outcome: 'failed', detail: '3 slots of 4 KiB are wrong' }),
        ],
        problem: 'the 55 s for all of it were over',
      }),
      256 * mib,
    )
    expect(text).toMatch(
      /^GPU 0 and GPU 1, peer access with atomics, as NVLink, performance rank 0: 256 MiB/,
    )
    expect(text).toMatch(/ipc +358 \/ 299 +- \/ -/)
    expect(text).toMatch(/descriptors +FAILED \/ 0\.10\*/)
    expect(text).toContain('*: the rate of the first 4 MiB; all would take over 2 s')
    expect(text).toContain('descriptors write 4 KiB: 3 slots of 4 KiB are wrong')
    expect(text).toContain('not all was measured: the 55 s')
  })

  test('findings: wrong bytes fail, emulated descriptors between GPUs are degraded, the rest is fine', () => {
    const large = { path: 'descriptors', blockBytes: 2 * mib } as const
    const emulated = [result({ ...large, direction: 'read', gigabytesPerSecond: 0.12 })]
    expect(rateFinding(pair({ results: emulated }))).toMatchObject({
      ...{ check: 'rates, GPU 0 and GPU 1', status: 'degraded' },
      detail: 'descriptors are as slow as software emulation: READ 0.12 GB/s',
      remedy: expect.stringContaining('cuda_ipc'),
    })
    // Small blocks cost their posts, and host memory has no link.
    const small = [result({ path: 'descriptors', gigabytesPerSecond: 0.9 })]
    expect(rateFinding(pair({ results: small })).status).toBe('ok')
    const host = { from: null, to: null, link: null }
    expect(rateFinding(pair({ ...host, results: emulated })).status).toBe('ok')
    const wrong = [result({ outcome: 'failed', detail: '3 slots of 4 KiB are wrong' })]
    expect(rateFinding(pair({ results: wrong }))).toMatchObject({ status: 'failed' })
    expect(rateFinding(pair({ problem: 'a process ended early (1)' })).status).toBe('failed')
  })
})
