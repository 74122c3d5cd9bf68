import { describe, expect, it } from 'vitest'
import { repeatedRun, splitHalf } from '../src/compare/noise-floor.ts'
import type { RequestMetrics } from '../src/compare/request-metrics.ts'

const withTtft = (ttftMs: number): RequestMetrics => ({
  ttftMs,
  ttftFromSendMs: ttftMs,
  tpotMs: null,
  itlMs: [],
  e2elMs: ttftMs,
  clientQueueMs: 0,
  load: null,
  breakdown: null,
})

describe('noise floor', () => {
  it('compares even with odd requests of one run', () => {
    const noise = splitHalf('pull', [10, 12, 10, 12].map(withTtft))
    expect(noise).toMatchObject({ method: 'split-half', label: 'pull' })
    expect(noise.metrics['ttftMs.p50']).toEqual({ a: 10, b: 12, relativeDifference: 2 / 11 })
  })

  it('is zero for equal trials', () => {
    const set = [10, 20, 30].map(withTtft)
    const noise = repeatedRun('pull', [set, set])
    expect(noise.method).toBe('repeated-run')
    expect(noise.metrics['ttftMs.p99']).toEqual({ a: 30, b: 30, relativeDifference: 0 })
  })

  it('of several trials, is that of the sets that lie farthest apart, and of each metric its own', () => {
    // In turn they look alike: only 10 and 10 against 12 and 12 shows how far trials are apart.
    const noise = repeatedRun(
      'pull',
      [10, 12, 12, 10].map((ttftMs) => [withTtft(ttftMs), withTtft(ttftMs)]),
    )
    expect(noise.metrics['ttftMs.mean']).toEqual({ a: 10, b: 12, relativeDifference: 2 / 11 })
    expect(noise.metrics['ttftMs.p50']).toMatchObject({ relativeDifference: 2 / 11 })
  })

  it('has no difference where nothing was observed', () => {
    const noise = splitHalf('pull', [10, 12].map(withTtft))
    expect(noise.metrics['tpotMs.p50']).toEqual({ a: null, b: null, relativeDifference: null })
  })
})
