import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BlockPool, type HoldKind } from '../src/core/block-pool.ts'

interface Holder {
  kind: HoldKind
  blocks: number[]
}

const blockCount = 12

/** One random user of the pool: takes, shares, converts, releases, caches, evicts. */
function act(pool: BlockPool, holders: Holder[], kind: number, value: number): void {
  const holder = holders[value % Math.max(1, holders.length)]
  switch (kind % 6) {
    case 0: {
      const available = pool.availableCount
      const blocks = pool.take(1 + (value % 4))
      if (blocks === null) expect(available).toBeLessThan(1 + (value % 4))
      else holders.push({ kind: 'owned', blocks })
      return
    }
    case 1: {
      const blocks = pool.findCached([`hash-${value % 5}`])
      pool.share(blocks)
      holders.push({ kind: 'owned', blocks })
      return
    }
    case 2:
      if (holder?.kind !== 'owned') return
      pool.convert(holder.blocks, 'owned', value % 2 === 0 ? 'leased' : 'quarantined')
      holder.kind = value % 2 === 0 ? 'leased' : 'quarantined'
      return
    case 3:
      if (holder === undefined) return
      pool.release(holder.blocks, holder.kind)
      holders.splice(holders.indexOf(holder), 1)
      return
    case 4: {
      // Only a block that never had content gets some: one that a single new owner holds.
      const block = holder?.blocks[0]
      const hash = `hash-${value % 5}`
      if (holder?.kind !== 'owned' || block === undefined) return
      if (pool.findCached([hash]).length > 0 || cachedBlocks(pool).includes(block)) return
      pool.cache(block, hash)
      return
    }
    default:
      if (holder !== undefined) pool.evict(holder.blocks)
  }
}

const cachedBlocks = (pool: BlockPool): number[] =>
  [0, 1, 2, 3, 4].flatMap((index) => pool.findCached([`hash-${index}`]))

describe('block pool', () => {
  it('keeps one owner per block and loses none, whatever is done to it', () => {
    const actions = fc.array(fc.tuple(fc.nat(5), fc.nat(1_000)), { maxLength: 120 })
    fc.assert(
      fc.property(actions, (steps) => {
        const pool = new BlockPool(blockCount)
        const holders: Holder[] = []
        for (const [kind, value] of steps) {
          act(pool, holders, kind, value)
          pool.checkInvariants(holders)
        }
        for (const holder of holders) pool.release(holder.blocks, holder.kind)
        pool.checkInvariants([])
        expect(pool.availableCount).toBe(blockCount)
      }),
      { numRuns: 150 },
    )
  })
})
