/** `path: auto` against peers whose costs are known to the test. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AgentPath } from '../src/index.ts'
import {
  beginTrial,
  choosePath,
  endTrial,
  protocolLimits,
  unmeasuredCosts,
  type PathCosts,
} from '../src/protocol/index.ts'

const { pathTrialCount } = protocolLimits

/** Microseconds of a transfer: something to begin with, something a piece. */
type Prices = Readonly<Record<AgentPath, { readonly begin: number; readonly piece: number }>>
const priceOf = (prices: Prices, path: AgentPath, pieces: number): number =>
  prices[path].begin + prices[path].piece * pieces

function serve(costs: PathCosts, prices: Prices, pieces: number): [PathCosts, AgentPath] {
  const path = choosePath(costs, pieces)
  const begun = beginTrial(costs, pieces, path)
  return [endTrial(begun, pieces, path, priceOf(prices, path, pieces)), path]
}

const prices = fc.record({
  descriptors: fc.record({ begin: fc.integer({ min: 1, max: 50 }), piece: fc.constant(4) }),
  slabs: fc.record({ begin: fc.integer({ min: 50, max: 2_000 }), piece: fc.constant(0.5) }),
})
const counts = fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1, maxLength: 200 })

describe('path: auto', () => {
  test('once a number of pieces is measured it takes the cheaper path, and so do fewer and more', () => {
    fc.assert(
      fc.property(prices, counts, fc.integer({ min: 1, max: 100_000 }), (priced, seen, pieces) => {
        let costs = unmeasuredCosts
        // One measurement of each class, so that none that straddles the threshold is judged by another number.
        for (const count of [
          ...seen,
          ...Array.from({ length: 2 * pathTrialCount }, () => pieces),
        ]) {
          const whole = 2 ** Math.floor(Math.log2(count))
          ;[costs] = serve(costs, priced, whole)
        }
        const whole = 2 ** Math.floor(Math.log2(pieces))
        const chosen = choosePath(costs, whole)
        const [direct, slabs] = [
          priceOf(priced, 'descriptors', whole),
          priceOf(priced, 'slabs', whole),
        ]
        expect(chosen).toBe(slabs < direct ? 'slabs' : 'descriptors')
        for (let other = 1; other <= 2 ** 20; other *= 2) {
          if (chosen === 'slabs' && other >= whole) expect(choosePath(costs, other)).toBe('slabs')
          if (chosen === 'descriptors' && other <= whole) {
            expect(choosePath(costs, other)).toBe('descriptors')
          }
        }
      }),
    )
  })

  test('whatever was measured, in whatever order, there is one threshold, and little is remembered', () => {
    const ends = fc.array(
      fc.record({
        pieces: fc.integer({ min: 1, max: 2 ** 20 }),
        path: fc.constantFrom<AgentPath>('descriptors', 'slabs'),
        us: fc.oneof(fc.integer({ min: 0, max: 10_000 }), fc.constant(Infinity)),
      }),
      { maxLength: 300 },
    )
    fc.assert(
      fc.property(ends, (events) => {
        let costs = unmeasuredCosts
        for (const { pieces, path, us } of events) {
          costs = endTrial(beginTrial(costs, pieces, path), pieces, path, us)
          expect(costs.descriptorsUpTo).toBeLessThan(costs.slabsFrom)
          for (const at of costs.trials.keys()) {
            expect(at).toBeGreaterThan(costs.descriptorsUpTo)
            expect(at).toBeLessThan(costs.slabsFrom)
          }
        }
        expect(costs.trials.size).toBeLessThanOrEqual(21)
      }),
    )
  })

  test('both are tried equally often, also while many are under way at once', () => {
    let costs = unmeasuredCosts
    const tried: AgentPath[] = []
    for (let at = 0; at < 10; at++) {
      const path = choosePath(costs, 64)
      tried.push(path)
      costs = beginTrial(costs, 64, path)
    }
    expect(tried.filter((path) => path === 'slabs')).toHaveLength(5)
  })

  test('a path that fails is not taken, and one disturbed measurement decides nothing', () => {
    let costs = unmeasuredCosts
    for (const us of [100, 100, 9_000]) costs = endTrial(costs, 64, 'slabs', us)
    for (const us of [200, 200, 200]) costs = endTrial(costs, 64, 'descriptors', us)
    expect(choosePath(costs, 64)).toBe('slabs')
    for (let at = 0; at < 3; at++) costs = endTrial(costs, 32, 'slabs', Infinity)
    for (let at = 0; at < 3; at++) costs = endTrial(costs, 32, 'descriptors', 9_999)
    expect(choosePath(costs, 32)).toBe('descriptors')
  })
})
