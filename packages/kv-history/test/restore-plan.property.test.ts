import { noDestination } from '@kvferry/connector-api'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { planRestore, type StoredBlock } from '../src/restoring/restore-plan.ts'

const arbitraryRequest = fc
  .record({
    tiers: fc.array(fc.constantFrom('device' as const, 'host' as const), { maxLength: 40 }),
    omitted: fc.array(fc.nat(39), { maxLength: 10 }),
    regionSizes: fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 12 }),
    batchSizeBytesMax: fc.integer({ min: 1, max: 2_000 }),
  })
  .map(({ tiers, omitted, regionSizes, batchSizeBytesMax }) => ({
    blocks: tiers.map((tier, index): StoredBlock => ({ tier, slot: 3 * index })),
    destinations: Uint32Array.from(tiers, (_, index) =>
      omitted.includes(index) ? noDestination : 1_000 - index,
    ),
    ...{ regionSizes, batchSizeBytesMax },
  }))

test('every region of every wanted block is copied once, to its destination, from its tier', () => {
  fc.assert(
    fc.property(arbitraryRequest, (request) => {
      const { copies, deviceBlockCount, hostBlockCount } = planRestore(request)
      const seen = new Map<string, string>()
      for (const { from, to, fromBlocks, toBlocks, firstRegion, endRegion } of copies) {
        expect(to).toBe('engine')
        fromBlocks.forEach((slot, index) => {
          for (let region = firstRegion; region < endRegion; region += 1) {
            const target = `${toBlocks[index]} ${region}`
            expect(seen.has(target)).toBe(false)
            seen.set(target, `${from} ${slot}`)
          }
        })
      }
      const wanted = request.blocks.flatMap(({ tier, slot }, index) => {
        const destination = request.destinations[index]!
        if (destination === noDestination) return []
        return request.regionSizes.map((_, region) => [
          `${destination} ${region}`,
          `${tier} ${slot}`,
        ])
      })
      expect(seen).toEqual(new Map(wanted as [string, string][]))
      const count = (tier: string) =>
        request.blocks.filter(
          (block, index) => block.tier === tier && request.destinations[index] !== noDestination,
        ).length
      expect([deviceBlockCount, hostBlockCount]).toEqual([count('device'), count('host')])
    }),
  )
})

test('copies keep to the bound where a block of one region does, and layers come in order', () => {
  fc.assert(
    fc.property(arbitraryRequest, (request) => {
      let layer = 0
      for (const { fromBlocks, firstRegion, endRegion } of planRestore(request).copies) {
        const sizes = request.regionSizes.slice(firstRegion, endRegion)
        const size = sizes.reduce((sum, bytes) => sum + bytes, 0) * fromBlocks.length
        const isMinimal = fromBlocks.length === 1 && sizes.length === 1
        expect(size <= request.batchSizeBytesMax || isMinimal).toBe(true)
        expect(firstRegion).toBeGreaterThanOrEqual(layer)
        layer = firstRegion
      }
    }),
  )
})
