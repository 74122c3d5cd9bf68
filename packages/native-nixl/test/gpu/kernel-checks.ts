/** The kernels on a GPU answer and write what those on the host do, bit for bit, whatever the layout. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import {
  blockBytes,
  type KvCacheLayout,
  type KvKernels,
  type KvMemory,
} from '@kvferry/connector-api'
import {
  createDeviceAllocator,
  createHostAllocator,
  createKernels,
  lockHostMemory,
} from '../../src/index.ts'
import { allocatorWithBytes } from '../device-bytes.ts'
import {
  cachesCase,
  cachesIn,
  content,
  ids,
  memoryCount,
  memorySizeBytes,
  regionCase,
  shapeCase,
} from '../kernel-copy-cases.ts'
import type { GpuCheck, GpuScope } from './check.ts'

type Run = (memories: readonly KvMemory[]) => Promise<unknown>

const regionCount = 2
const tokenCases = { blockTokens: [1, 2, 4], count: fc.nat(12), first: fc.nat(5) }

export function kernelChecks(scope: GpuScope): GpuCheck[] {
  const kernels = createKernels({ threads: 1 })
  const host = createHostAllocator({ hugePages: false })
  const device = allocatorWithBytes(createDeviceAllocator({ device: 0 }))
  const make = (allocate: () => KvMemory) => Array.from({ length: memoryCount }, allocate)
  const sizeBytes = memorySizeBytes
  const sides = [
    make(() => host.allocate({ sizeBytes })),
    make(() => device.allocate({ sizeBytes })),
  ] as const
  let moves = 0

  /** On the host, then on the GPU: the same answer and the same bytes everywhere, or both refuse. */
  async function compare(run: Run): Promise<void> {
    const results = []
    for (const memories of sides) {
      memories.forEach((memory, index) => memory.bytes!.set(content(index)))
      let answer: unknown
      try {
        answer = await run(memories)
      } catch (error) {
        assert.ok(error instanceof RangeError, `refused with ${String(error)}`)
        answer = 'refused'
      }
      const bytes = memories.map((memory) => Buffer.from(memory.bytes!).toString('hex'))
      results.push({ answer, bytes })
    }
    const [onHost, onDevice] = results
    assert.deepEqual(onDevice, onHost)
    if (onHost!.answer !== 'refused') moves += 1
  }

  /** `share`: of the cases that must be good ones, or the property says little. */
  const property = async <T>(arbitrary: fc.Arbitrary<T>, run: (value: T) => Run, share: number) => {
    moves = 0
    const { runCount: numRuns } = scope
    await fc.assert(
      fc.asyncProperty(arbitrary, (value) => compare(run(value))),
      { numRuns, seed: 7 },
    )
    assert.ok(moves > numRuns * share, `only ${moves} of ${numRuns} cases were good ones`)
  }

  return [
    {
      name: 'fill and digest of random slots, at any alignment',
      run: () =>
        property(
          fc.record({
            words: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 2 }),
            blockTokens: fc.constantFrom(1, 2, 4),
            regions: fc.array(regionCase, { minLength: regionCount, maxLength: regionCount }),
            slots: fc.array(fc.tuple(fc.nat(2), fc.nat(3), fc.bigInt(0n, 2n ** 64n - 1n))),
          }),
          ({ words, blockTokens, regions, slots }) =>
            async (memories) => {
              const shape = { heads: 1, rowBytes: words.map((count) => count * 8) }
              // A slot that two regions share gets the words of either.
              const used = regions
                .slice(0, words.length)
                .map((region, index) => ({ ...region, memory: index }))
              const caches = cachesIn(memories, shape, {
                ...{ layout: 'LBNHC', blockTokens, blockCount: 2, regions: used },
              })
              const list = {
                blockIds: Uint32Array.from(slots, ([block]) => block),
                offsets: Uint32Array.from(slots, ([, offset]) => offset),
              }
              const seeds = BigUint64Array.from(slots, ([, , seed]) => seed)
              const filled = await kernels.fill(caches, list, seeds)
              return [filled, await kernels.digest(caches, list)]
            },
          0.02,
        ),
    },
    {
      name: 'gather and scatter of random blocks, odd lengths and tails',
      run: () =>
        property(
          fc.record({
            shape: shapeCase,
            caches: cachesCase(regionCount, [1, 2, 4]),
            blocks: ids(4),
            slabOffset: fc.nat(memorySizeBytes),
            slabMemory: fc.nat(memoryCount - 1),
            isGather: fc.boolean(),
          }),
          ({ shape, caches, blocks, slabOffset, slabMemory, isGather }) =>
            async (memories) => {
              const layout = cachesIn(memories, shape, {
                ...caches,
                regions: caches.regions.slice(0, shape.rowBytes.length),
              })
              const slab = { memory: memories[slabMemory]!, offsetBytes: slabOffset }
              const blockIds = Uint32Array.from(blocks)
              if (isGather) await kernels.gather(layout, blockIds, slab)
              else await kernels.scatter(slab, layout, blockIds)
            },
          0.1,
        ),
    },
    {
      name: 'relayout between random block sizes and orders, also in place',
      run: () =>
        property(
          fc.record({
            shape: shapeCase,
            from: cachesCase(regionCount, tokenCases.blockTokens),
            to: cachesCase(regionCount, tokenCases.blockTokens),
            isInPlace: fc.boolean(),
            fromBlocks: ids(4),
            toBlocks: ids(4),
            count: tokenCases.count,
            first: tokenCases.first,
          }),
          ({ shape, from, to, isInPlace, fromBlocks, toBlocks, count, first }) =>
            async (memories) => {
              const used = shape.rowBytes.length
              const source = { ...from, regions: from.regions.slice(0, used) }
              const target = isInPlace
                ? { ...source, layout: to.layout }
                : { ...to, regions: to.regions.slice(0, used) }
              const blocks = isInPlace ? [...new Set(fromBlocks)] : toBlocks
              const run = (caches: KvCacheLayout, list: readonly number[]) => ({
                ...{ caches, blockIds: Uint32Array.from(list) },
                firstToken: isInPlace ? 0 : first,
              })
              await kernels.relayout(
                run(cachesIn(memories, shape, source), isInPlace ? blocks : fromBlocks),
                run(cachesIn(memories, shape, target), blocks),
                count,
              )
            },
          0.05,
        ),
    },
    {
      name: 'tier copies: scattered blocks to page-locked host memory and back',
      run: () => tierCopies(kernels),
    },
    {
      name: 'host memory beside a GPU’s is refused unless it is page-locked',
      async run() {
        const [onHost] = sides[0]
        const layout = largeLayout(device.allocate({ sizeBytes: largeBytes }), 64, 4)
        const gather = () =>
          kernels.gather(layout, Uint32Array.of(0), { memory: onHost!, offsetBytes: 0 })
        await assert.rejects(gather, (error: Error) => {
          return error instanceof RangeError && error.message.includes('page-locked')
        })
        layout.regions[0]!.memory.free()
      },
    },
  ]
}

const largeBytes = 4 << 20

/** One region that fills the memory, with gaps between its blocks. */
function largeLayout(memory: KvMemory, tokenBytes: number, blockTokens: number): KvCacheLayout {
  const blockSizeBytes = tokenBytes * blockTokens
  const blockStrideBytes = blockSizeBytes + 16
  const blockCount = Math.floor((memory.sizeBytes - 16) / blockStrideBytes)
  const region = { name: 'layer.0', memory, offsetBytes: 16, blockSizeBytes, blockStrideBytes }
  return {
    ...{ model: 'test', dtype: 'int8', layout: 'LBNHC', layerCount: 1, kvHeadCount: 1 },
    ...{ headSize: tokenBytes, blockTokens, blockCount, regions: [{ ...region, blockCount }] },
  }
}

async function tierCopies(kernels: KvKernels): Promise<void> {
  const memory = createDeviceAllocator({ device: 0 }).allocate({ sizeBytes: largeBytes })
  const tier = createHostAllocator().allocate({ sizeBytes: largeBytes })
  lockHostMemory(tier, { device: 0 })
  lockHostMemory(tier, { device: 0 })
  const layout = largeLayout(memory, 4_096, 2)
  const blockIds = Uint32Array.from(
    { length: 300 },
    (_, index) => (index * 5 + 3) % layout.blockCount,
  )
  const slots = {
    blockIds: Uint32Array.from({ length: 600 }, (_, index) => blockIds[index >> 1]!),
    offsets: Uint32Array.from({ length: 600 }, (_, index) => index & 1),
  }
  const seeds = BigUint64Array.from({ length: 600 }, (_, index) => BigInt(index) * 77n)
  const filled = await kernels.fill(layout, slots, seeds)
  const slab = { memory: tier, offsetBytes: 24 }
  await kernels.gather(layout, blockIds, slab)
  assert.equal(blockBytes(layout), 8_192)
  memory.write(0, new Uint8Array(memory.sizeBytes).fill(0xee))
  await kernels.scatter(slab, layout, blockIds)
  assert.deepEqual(await kernels.digest(layout, slots), filled)
  memory.free()
  tier.free()
}
