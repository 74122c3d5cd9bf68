import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  mergePieces,
  planSlabs,
  slabPieceBytes,
  slabRunBytes,
  type BlockTableHandle,
  type TransferSide,
} from '../src/index.ts'
import { planSlabsOf, slabPlans, sliceSide, type SideRegion } from '../src/protocol/index.ts'

const sourceTable = 1 as BlockTableHandle
const targetTable = 2 as BlockTableHandle

/** Where every byte of a stream lies, one by one: the model that a plan is compared with. */
function bytesOf(side: TransferSide, regions: readonly SideRegion[]): string[] {
  const bytes: string[] = []
  if ('blockIds' in side) {
    regions.forEach(({ blockSizeBytes, blockStrideBytes }, region) => {
      for (const block of side.blockIds) {
        for (let at = 0; at < blockSizeBytes; at += 1) {
          bytes.push(`${region}:${block * blockStrideBytes + at}`)
        }
      }
    })
    return bytes
  }
  side.lengths.forEach((length, index) => {
    for (let at = 0; at < length; at += 1) {
      bytes.push(`${side.regions[index]}:${side.offsets[index]! + at}`)
    }
  })
  return bytes
}

const region = fc
  .record({ blockSizeBytes: fc.integer({ min: 1, max: 70 }), gap: fc.integer({ min: 0, max: 9 }) })
  .map(({ blockSizeBytes, gap }) => ({ blockSizeBytes, blockStrideBytes: blockSizeBytes + gap }))
const blockIds = fc.uniqueArray(fc.nat(40), { minLength: 1, maxLength: 12 })
const slabSizeBytes = fc.integer({ min: 32, max: 400 })

/** Two sides of one stream: blocks of the same sizes, other ids and strides; the source perhaps in segments. */
const transfer = fc
  .record({
    regions: fc.array(region, { minLength: 1, maxLength: 4 }),
    targetGaps: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 4, maxLength: 4 }),
    ids: blockIds,
    shift: fc.integer({ min: 0, max: 50 }),
    cuts: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 4 }),
  })
  .map(({ regions, targetGaps, ids, shift, cuts }) => {
    const targetRegions = regions.map(({ blockSizeBytes }, index) => ({
      blockSizeBytes,
      blockStrideBytes: blockSizeBytes + targetGaps[index]!,
    }))
    const source: TransferSide = { table: sourceTable, blockIds: Uint32Array.from(ids) }
    const target: TransferSide = {
      table: targetTable,
      blockIds: Uint32Array.from(ids, (id) => id + shift),
    }
    return {
      source: cuts.length === 0 ? source : segmentsOf(source, regions, cuts),
      target,
      regions: { source: regions, target: targetRegions },
    }
  })

/** The same bytes as segments of odd lengths, as head slices and smaller blocks make them. */
function segmentsOf(
  side: TransferSide & { blockIds: Uint32Array },
  regions: readonly SideRegion[],
  cuts: readonly number[],
): TransferSide {
  const found: number[][] = []
  regions.forEach(({ blockSizeBytes, blockStrideBytes }, index) => {
    for (const block of side.blockIds) {
      let at = 0
      for (let step = 0; at < blockSizeBytes; step += 1) {
        const length = Math.min(cuts[step % cuts.length]!, blockSizeBytes - at)
        found.push([index, block * blockStrideBytes + at, length])
        at += length
      }
    }
  })
  return {
    table: side.table,
    regions: Uint32Array.from(found, ([at]) => at!),
    offsets: Float64Array.from(found, ([, at]) => at!),
    lengths: Float64Array.from(found, ([, , at]) => at!),
  }
}

describe('slabs of a transfer', () => {
  test('cover the stream once, in order, and hold their payload with its list', () => {
    fc.assert(
      fc.property(transfer, slabSizeBytes, ({ target, regions }, size) => {
        const slabs = planSlabsOf(target, regions.target, size)
        let at = 0
        for (const { start, end, listBytes } of slabs) {
          expect(start).toBe(at)
          expect(end).toBeGreaterThan(start)
          expect(Math.ceil((end - start) / 8) * 8 + listBytes).toBeLessThanOrEqual(size)
          at = end
        }
        expect(at).toBe(bytesOf(target, regions.target).length)
      }),
    )
  })

  test('are the same bytes on both sides, byte by byte, and each byte once', () => {
    fc.assert(
      fc.property(transfer, slabSizeBytes, ({ source, target, regions }, size) => {
        const plans = slabPlans({ source, target }, regions, size)
        const sources = plans.flatMap((plan) => bytesOf(plan.source, regions.source))
        const targets = plans.flatMap((plan) => bytesOf(plan.target, regions.target))
        expect(sources).toEqual(bytesOf(source, regions.source))
        expect(targets).toEqual(bytesOf(target, regions.target))
        expect(new Set(targets).size).toBe(targets.length)
        for (const plan of plans) {
          expect(plan.source.table).toBe(sourceTable)
          expect(plan.target.table).toBe(targetTable)
        }
      }),
    )
  })

  test('say how long their list is: runs of equal length, neighbours as one piece', () => {
    fc.assert(
      fc.property(transfer, slabSizeBytes, ({ target, regions }, size) => {
        for (const range of planSlabsOf(target, regions.target, size)) {
          const part = sliceSide(target, regions.target, range)
          if ('blockIds' in part) throw new Error('a slice names segments')
          const addresses = part.offsets.map((offset, at) => part.regions[at]! * 2 ** 42 + offset)
          const { lengths } = mergePieces({ addresses, lengths: part.lengths })
          const runs = lengths.filter((length, at) => length !== lengths[at - 1]).length
          const smallest = runs * slabRunBytes + lengths.length * slabPieceBytes
          // A piece that was cut starts a run of its own, although its length may be the one before.
          expect(range.listBytes - smallest).toBeGreaterThanOrEqual(0)
          expect(range.listBytes - smallest).toBeLessThanOrEqual(slabRunBytes)
        }
      }),
    )
  })

  test('are filled: none but the last has room for another byte and its place in the list', () => {
    fc.assert(
      fc.property(transfer, slabSizeBytes, ({ target, regions }, size) => {
        const slabs = planSlabsOf(target, regions.target, size)
        for (const { start, end, listBytes } of slabs.slice(0, -1)) {
          const used = Math.ceil((end - start) / 8) * 8 + listBytes
          expect(used + slabRunBytes + slabPieceBytes + 8).toBeGreaterThan(size)
        }
      }),
    )
  })

  test('a slab too small for a byte and its list is refused, as is a part beyond the stream', () => {
    expect(() => planSlabs({ lengths: Float64Array.of(8) }, 31)).toThrow(RangeError)
    const side = { table: targetTable, blockIds: Uint32Array.of(0) }
    const regions = [{ blockSizeBytes: 16, blockStrideBytes: 16 }]
    expect(() => sliceSide(side, regions, { start: 8, end: 17 })).toThrow(
      /8 … 17 of a stream of 16/,
    )
    expect(() => sliceSide(side, regions, { start: 8, end: 8 })).toThrow(RangeError)
  })
})
