import { describe, expect, it } from 'vitest'
import { createDistribution, nearestRank } from '../src/lib/distribution.ts'

describe('nearestRank', () => {
  it('gives an observation, never a value in between', () => {
    // The textbook example of the method.
    const sorted = [15, 20, 35, 40, 50]
    expect(nearestRank(sorted, 5)).toBe(15)
    expect(nearestRank(sorted, 30)).toBe(20)
    expect(nearestRank(sorted, 40)).toBe(20)
    expect(nearestRank(sorted, 50)).toBe(35)
    expect(nearestRank(sorted, 100)).toBe(50)
  })

  it('refuses an empty list and a percentage outside (0, 100]', () => {
    expect(() => nearestRank([], 50)).toThrow(RangeError)
    expect(() => nearestRank([1], 0)).toThrow(RangeError)
    expect(() => nearestRank([1], 101)).toThrow(RangeError)
  })
})

describe('createDistribution', () => {
  it('summarises unsorted observations and keeps them in their order', () => {
    const distribution = createDistribution([3, 1, 2, 10])
    expect(distribution).toEqual({
      count: 4,
      mean: 4,
      p50: 2,
      p90: 10,
      p95: 10,
      p99: 10,
      max: 10,
      samples: [3, 1, 2, 10],
    })
  })

  it('sorts as numbers', () => {
    expect(createDistribution([9, 10, 100]).p50).toBe(10)
  })

  it('has no percentiles without observations', () => {
    expect(createDistribution([])).toMatchObject({ count: 0, mean: null, p99: null, samples: [] })
  })

  it('keeps at most 1,000 samples, spread over the whole run, and counts all', () => {
    const distribution = createDistribution(Array.from({ length: 2_500 }, (_, i) => i))
    expect(distribution.count).toBe(2_500)
    expect(distribution.samples).toHaveLength(1_000)
    expect(distribution.samples.slice(0, 3)).toEqual([0, 2, 5])
    expect(distribution.samples.at(-1)).toBe(2_497)
    expect(distribution.max).toBe(2_499)
  })

  it('refuses a value that is not finite', () => {
    expect(() => createDistribution([1, Number.NaN])).toThrow(RangeError)
  })
})
