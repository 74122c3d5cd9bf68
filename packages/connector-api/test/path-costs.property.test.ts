/** `path: auto` against peers whose costs are known to the test. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AgentPath } from '../src/index.ts'
import {
  beginTrial,
  choosePath,
  endTrial,
  othersFrom,
  protocolLimits,
  unmeasuredCosts,
  type PathCosts,
} from '../src/protocol/index.ts'

const { pathTrialCount } = protocolLimits
const two = ['descriptors', 'slabs'] as const
const three = ['descriptors', 'slabs', 'ipc'] as const

/** Microseconds of a transfer: something to begin with, something a piece. */
type Prices = Readonly<Record<AgentPath, { readonly begin: number; readonly piece: number }>>
const priceOf = (prices: Prices, path: AgentPath, pieces: number): number =>
  prices[path].begin + prices[path].piece * pieces

function serve(
  costs: PathCosts,
  prices: Prices,
  pieces: number,
  paths: readonly AgentPath[],
): [PathCosts, AgentPath] {
  const path = choosePath(costs, pieces, paths)
  const begun = beginTrial(costs, pieces, path)
  return [endTrial(begun, pieces, path, priceOf(prices, path, pieces), paths), path]
}

const prices = fc.record({
  descriptors: fc.record({ begin: fc.integer({ min: 1, max: 50 }), piece: fc.constant(4) }),
  slabs: fc.record({ begin: fc.integer({ min: 50, max: 2_000 }), piece: fc.constant(0.5) }),
  ipc: fc.record({ begin: fc.integer({ min: 50, max: 2_000 }), piece: fc.constant(0.5) }),
})
const counts = fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1, maxLength: 200 })

describe('path: auto', () => {
  test('once a number of pieces is measured it takes the cheapest path, fewer stay with descriptors and more with the others', () => {
    fc.assert(
      fc.property(
        prices,
        counts,
        fc.integer({ min: 1, max: 100_000 }),
        fc.constantFrom(two, three),
        (priced, seen, pieces, paths) => {
          let costs = unmeasuredCosts
          // One measurement of each class, so that none that straddles the threshold is judged by another number.
          for (const count of [
            ...seen,
            ...Array.from({ length: paths.length * pathTrialCount }, () => pieces),
          ]) {
            const whole = 2 ** Math.floor(Math.log2(count))
            ;[costs] = serve(costs, priced, whole, paths)
          }
          const whole = 2 ** Math.floor(Math.log2(pieces))
          const chosen = choosePath(costs, whole, paths)
          const cheapest = Math.min(...paths.map((path) => priceOf(priced, path, whole)))
          expect(priceOf(priced, chosen, whole)).toBe(cheapest)
          for (let other = 1; other <= 2 ** 20; other *= 2) {
            const taken = choosePath(costs, other, paths)
            if (chosen !== 'descriptors' && other >= whole) expect(taken).toBe(chosen)
            if (chosen === 'descriptors' && other <= whole) expect(taken).toBe('descriptors')
          }
        },
      ),
    )
  })

  test('whatever was measured, in whatever order, there is one threshold, and little is remembered', () => {
    const ends = fc.array(
      fc.record({
        pieces: fc.integer({ min: 1, max: 2 ** 20 }),
        path: fc.constantFrom<AgentPath>(...three),
        us: fc.oneof(fc.integer({ min: 0, max: 10_000 }), fc.constant(Infinity)),
      }),
      { maxLength: 300 },
    )
    fc.assert(
      fc.property(ends, (events) => {
        let costs = unmeasuredCosts
        for (const { pieces, path, us } of events) {
          costs = endTrial(beginTrial(costs, pieces, path), pieces, path, us, three)
          expect(costs.descriptorsUpTo).toBeLessThan(othersFrom(costs))
          for (const at of costs.trials.keys()) {
            expect(at).toBeGreaterThan(costs.descriptorsUpTo)
            expect(at).toBeLessThan(othersFrom(costs))
          }
        }
        expect(costs.trials.size + costs.others.size).toBeLessThanOrEqual(21)
      }),
    )
  })

  test('all are tried equally often, also while many are under way at once', () => {
    let costs = unmeasuredCosts
    const tried: AgentPath[] = []
    for (let at = 0; at < 12; at++) {
      const path = choosePath(costs, 64, three)
      tried.push(path)
      costs = beginTrial(costs, 64, path)
    }
    for (const path of three) expect(tried.filter((each) => each === path)).toHaveLength(4)
  })

  test('a path that fails is not taken, and one disturbed measurement decides nothing', () => {
    let costs = unmeasuredCosts
    for (const us of [100, 100, 9_000]) costs = endTrial(costs, 64, 'slabs', us, two)
    for (const us of [200, 200, 200]) costs = endTrial(costs, 64, 'descriptors', us, two)
    expect(choosePath(costs, 64, two)).toBe('slabs')
    for (let at = 0; at < 3; at++) costs = endTrial(costs, 32, 'slabs', Infinity, two)
    for (let at = 0; at < 3; at++) costs = endTrial(costs, 32, 'descriptors', 9_999, two)
    expect(choosePath(costs, 32, two)).toBe('descriptors')
  })

  test('each number of pieces that was measured has its own path, and more go as the nearest', () => {
    let costs = unmeasuredCosts
    const measure = (pieces: number, us: Readonly<Record<AgentPath, number>>) => {
      for (const path of three) {
        for (let at = 0; at < pathTrialCount; at++) {
          costs = endTrial(costs, pieces, path, us[path], three)
        }
      }
    }
    measure(256, { descriptors: 900, slabs: 100, ipc: 200 })
    measure(16, { descriptors: 90, slabs: 80, ipc: 20 })
    expect([16, 64, 255].map((pieces) => choosePath(costs, pieces, three))).toEqual([
      ...['ipc', 'ipc', 'ipc'],
    ])
    expect([256, 100_000].map((pieces) => choosePath(costs, pieces, three))).toEqual([
      ...['slabs', 'slabs'],
    ])
  })
})
