import { describe, expect, it } from 'vitest'
import { BlockPool } from '../src/core/block-pool.ts'

const take = (pool: BlockPool, count: number): number[] => {
  const blocks = pool.take(count)
  if (blocks === null) throw new Error('the pool is empty')
  return blocks
}

describe('block pool', () => {
  it('gives all or nothing', () => {
    const pool = new BlockPool(4)
    expect(pool.take(5)).toBeNull()
    expect(pool.availableCount).toBe(4)
    expect(take(pool, 4)).toHaveLength(4)
    expect(pool.take(1)).toBeNull()
  })

  it.each([64, 100, 4_096, 16_384])(
    'scattered, %i blocks come once each, and no neighbours in a row',
    (count) => {
      const blocks = take(new BlockPool(count, 'scattered'), count)
      expect(new Set(blocks).size).toBe(count)
      const gaps = blocks.slice(1).map((block, at) => Math.abs(block - blocks[at]!))
      expect(Math.min(...gaps)).toBeGreaterThan(1)
      expect(take(new BlockPool(count), count)).toEqual([...blocks].sort((a, b) => a - b))
    },
  )

  it('evicts the least recently released content first, the tail of a prefix before its head', () => {
    const pool = new BlockPool(4)
    const old = take(pool, 2)
    const young = take(pool, 2)
    old.forEach((block, index) => pool.cache(block, `old-${index}`))
    young.forEach((block, index) => pool.cache(block, `young-${index}`))
    pool.release(old, 'owned')
    pool.release(young, 'owned')
    expect(take(pool, 1)).toEqual([old[1]])
    expect(pool.findCached(['old-0', 'old-1'])).toEqual([old[0]])
    expect(pool.findCached(['young-0', 'young-1'])).toEqual(young)
    expect(pool.counts()).toMatchObject({ cached: 3, owned: 1, free: 0 })
  })

  it('finds only an unbroken run from the front', () => {
    const pool = new BlockPool(4)
    const [first, , third] = take(pool, 3)
    pool.cache(first as number, 'a')
    pool.cache(third as number, 'c')
    expect(pool.findCached(['a', 'b', 'c'])).toEqual([first])
  })

  it('shares cached content, held or not, and keeps it until the last holder is gone', () => {
    const pool = new BlockPool(2)
    const blocks = take(pool, 1)
    pool.cache(blocks[0] as number, 'a')
    pool.share(blocks)
    pool.release(blocks, 'owned')
    expect(pool.availableCount).toBe(1)
    pool.release(blocks, 'owned')
    expect(pool.availableCount).toBe(2)
    expect(pool.countAvailable(blocks)).toBe(1)
    pool.share(blocks)
    expect(pool.availableCount).toBe(1)
  })

  it('refuses what would be a second owner or a double release', () => {
    const pool = new BlockPool(2)
    const blocks = take(pool, 1)
    expect(() => pool.share(blocks)).toThrow(/no cached content/)
    pool.release(blocks, 'owned')
    expect(() => pool.release(blocks, 'owned')).toThrow(/no owned hold/)
    expect(() => pool.convert(blocks, 'owned', 'leased')).toThrow(/no owned hold/)
  })

  it('serves no content that was evicted, also while it is held', () => {
    const pool = new BlockPool(2)
    const blocks = take(pool, 1)
    pool.cache(blocks[0] as number, 'a')
    pool.evict(blocks)
    expect(pool.findCached(['a'])).toEqual([])
    pool.cache(blocks[0] as number, 'a')
    expect(pool.findCached(['a'])).toEqual([])
  })

  it('counts a block with several holds as the strictest', () => {
    const pool = new BlockPool(2)
    const blocks = take(pool, 1)
    pool.cache(blocks[0] as number, 'a')
    pool.share(blocks)
    pool.convert(blocks, 'owned', 'leased')
    expect(pool.counts()).toMatchObject({ leased: 1, owned: 0 })
    pool.checkInvariants([
      { kind: 'owned', blocks },
      { kind: 'leased', blocks },
    ])
    expect(() => pool.checkInvariants([{ kind: 'owned', blocks }])).toThrow(/leased holds/)
  })
})
