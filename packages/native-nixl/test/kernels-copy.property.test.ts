/**
 * The copying kernels against those of the memory fabric and against a model that moves byte by byte:
 * random layouts in one or two memories, so that many overlap or don't fit. All succeed with the same
 * bytes everywhere, also in the gaps, or all refuse.
 */
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import type { KvKernels, KvMemory, KvMemoryAllocator } from '@kvferry/connector-api'
import {
  createMemoryFabric,
  createSeededRandom,
  createSimClock,
} from '@kvferry/connector-api/testing'
import { createHostAllocator, createKernels } from '../src/index.ts'
import {
  cachesCase,
  cachesIn,
  content,
  distinctIds,
  ids,
  layouts,
  memoryCount,
  memorySizeBytes,
  modelRelayout,
  regionCase,
  shapeCase,
  type CachesCase,
} from './kernel-copy-cases.ts'

interface Side {
  readonly kernels: KvKernels
  readonly memories: readonly KvMemory[]
}

function openSide(kernels: KvKernels, allocator: KvMemoryAllocator): Side {
  const allocate = () => allocator.allocate({ sizeBytes: memorySizeBytes })
  return { kernels, memories: Array.from({ length: memoryCount }, allocate) }
}

const fabric = createMemoryFabric({ clock: createSimClock(), random: createSeededRandom(1) })
const sides: readonly Side[] = [
  openSide(createKernels({ threads: 2 }), createHostAllocator({ hugePages: false })),
  openSide(fabric.kernels, fabric.allocator),
]
afterAll(() => sides[0]!.memories.forEach((memory) => memory.free()))

/** One string per memory: compared a hundred times faster than arrays. */
const hexOf = (memories: readonly Uint8Array[]) =>
  memories.map((bytes) => Buffer.from(bytes).toString('hex')).join('\n')
const untouched = hexOf([content(0), content(1)])

type Run = (kernels: KvKernels, memories: readonly KvMemory[]) => Promise<void>

/** Runs it on both sides; null: refused on both. */
async function bytesAfter(run: Run): Promise<string | null> {
  const results: (string | null)[] = []
  for (const { kernels, memories } of sides) {
    memories.forEach((memory, index) => memory.bytes!.set(content(index)))
    let isRefused = false
    try {
      await run(kernels, memories)
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError)
      isRefused = true
    }
    const bytes = hexOf(memories.map((memory) => memory.bytes!))
    if (isRefused) expect(bytes).toBe(untouched)
    results.push(isRefused ? null : bytes)
  }
  expect(results[0]).toBe(results[1])
  return results[0]!
}

const numRuns = 500
let moved = 0
const countMove = (bytes: string | null) => {
  if (bytes !== null && bytes !== untouched) moved += 1
}
const expectManyMoves = (share: number) => {
  expect(moved).toBeGreaterThan(numRuns * share)
  moved = 0
}

describe('copying kernels', () => {
  test('gather and scatter', async () => {
    const cases = shapeCase.chain((shape) =>
      cachesCase(shape.rowBytes.length, [1, 2, 4]).chain((caches) =>
        fc.record({
          shape: fc.constant(shape),
          caches: fc.constant(caches),
          blockIds: fc.oneof(distinctIds(caches.blockCount), ids(caches.blockCount - 1), ids(5)),
          slab: regionCase,
          isGather: fc.boolean(),
        }),
      ),
    )
    const property = fc.asyncProperty(cases, async (given) => {
      const blockIds = Uint32Array.from(given.blockIds)
      const slabIn = (memories: readonly KvMemory[]) => ({
        memory: memories[given.slab.memory]!,
        offsetBytes: given.slab.offsetBytes,
      })
      const found = await bytesAfter(async (kernels, memories) => {
        const caches = cachesIn(memories, given.shape, given.caches)
        if (given.isGather) await kernels.gather(caches, blockIds, slabIn(memories))
        else await kernels.scatter(slabIn(memories), caches, blockIds)
      })
      countMove(found)
      if (found === null) return
      const model = [content(0), content(1)]
      const caches = cachesIn(sides[1]!.memories, given.shape, given.caches)
      let at = given.slab.offsetBytes
      for (const id of blockIds) {
        caches.regions.forEach((region, index) => {
          const block = region.offsetBytes + id * region.blockStrideBytes
          const blockMemory = given.caches.regions[index]!.memory
          for (let byte = 0; byte < region.blockSizeBytes; byte += 1, at += 1) {
            if (given.isGather) {
              model[given.slab.memory]![at] = content(blockMemory)[block + byte]!
            } else {
              model[blockMemory]![block + byte] = content(given.slab.memory)[at]!
            }
          }
        })
      }
      expect(found).toBe(hexOf(model))
    })
    await fc.assert(property, { numRuns })
    expectManyMoves(0.2)
  })

  test('relayout between any two places, block sizes and orders', async () => {
    const cases = shapeCase.chain((shape) =>
      fc
        .tuple(
          ...[0, 1].map(() =>
            cachesCase(shape.rowBytes.length, [1, 2, 3, 4, 6]).chain((caches) =>
              fc.record({
                caches: fc.constant(caches),
                ids: fc.oneof(distinctIds(caches.blockCount), ids(caches.blockCount - 1)),
                first: fc.constantFrom(0, 0, 1, 5),
              }),
            ),
          ),
        )
        .chain(([from, to]) =>
          fc.record({
            shape: fc.constant(shape),
            from: fc.constant(from!),
            to: fc.constant(to!),
            count: fc.nat(
              Math.max(
                1,
                Math.min(
                  from!.ids.length * from!.caches.blockTokens - from!.first,
                  to!.ids.length * to!.caches.blockTokens - to!.first,
                ),
              ),
            ),
          }),
        ),
    )
    const property = fc.asyncProperty(cases, async ({ shape, from, to, count }) => {
      const found = await bytesAfter((kernels, memories) => {
        const run = (side: typeof from) => ({
          caches: cachesIn(memories, shape, side.caches),
          blockIds: Uint32Array.from(side.ids),
          firstToken: side.first,
        })
        return kernels.relayout(run(from), run(to), count)
      })
      countMove(found)
      if (found === null) return
      const given = { shape, from: from.caches, to: to.caches }
      const tokens = { count, from: from.first, to: to.first }
      expect(found).toBe(hexOf(modelRelayout(given, from.ids, to.ids, tokens)))
    })
    await fc.assert(property, { numRuns })
    expectManyMoves(0.04)
  })

  test('relayout in place: blocks read piecewise in a smaller block size become whole ones', async () => {
    const cases = fc.record({
      heads: fc.integer({ min: 1, max: 3 }),
      rowBytes: fc.constantFrom(1, 3, 4),
      pieces: fc.integer({ min: 1, max: 4 }),
      pieceTokens: fc.constantFrom(1, 2, 4),
      orders: fc.tuple(layouts, layouts),
      to: distinctIds(4),
      missingTokens: fc.nat(3),
    })
    const property = fc.asyncProperty(cases, async (given) => {
      const { heads, rowBytes, pieces, pieceTokens, to } = given
      const place = [{ memory: 0, offsetBytes: 8, gapBytes: 0 }]
      const shape = { heads, rowBytes: [rowBytes] }
      const source = {
        ...{ layout: given.orders[0], blockTokens: pieceTokens },
        ...{ blockCount: 4 * pieces, regions: place },
      }
      const target = {
        ...{ layout: given.orders[1], blockTokens: pieceTokens * pieces },
        ...{ blockCount: 4, regions: place },
      }
      const from = to.flatMap((id) =>
        Array.from({ length: pieces }, (_, piece) => id * pieces + piece),
      )
      const count = Math.max(0, to.length * target.blockTokens - given.missingTokens)
      const found = await bytesAfter((kernels, memories) => {
        const run = (caches: CachesCase, blockIds: readonly number[]) => ({
          caches: cachesIn(memories, shape, caches),
          blockIds: Uint32Array.from(blockIds),
        })
        return kernels.relayout(run(source, from), run(target, to), count)
      })
      countMove(found)
      const tokens = { count, from: 0, to: 0 }
      const model = modelRelayout({ shape, from: source, to: target }, from, to, tokens)
      expect(found).toBe(hexOf(model))
    })
    await fc.assert(property, { numRuns })
    expectManyMoves(0.2)
  })
})
