import { afterAll, describe, expect, test } from 'vitest'
import type { KvCacheLayout, KvKernels, KvMemoryAllocator } from '@kvferry/connector-api'
import {
  createMemoryFabric,
  createSeededRandom,
  createSimClock,
} from '@kvferry/connector-api/testing'
import { createHostAllocator, createKernels } from '../src/index.ts'

const blockTokens = 4
const blockCount = 8
const leadBytes = 64

/** Two regions of different block sizes, with gaps, in one memory each. */
function layoutIn(allocator: KvMemoryAllocator): KvCacheLayout {
  const region = (name: string, blockSizeBytes: number) => {
    const blockStrideBytes = blockSizeBytes + 32
    const sizeBytes = leadBytes + blockCount * blockStrideBytes
    return {
      name,
      memory: allocator.allocate({ sizeBytes }),
      offsetBytes: leadBytes,
      blockSizeBytes,
      blockStrideBytes,
      blockCount,
    }
  }
  return {
    model: 'test',
    dtype: 'int8',
    layout: 'LBNHC',
    layerCount: 2,
    kvHeadCount: 1,
    headSize: 8,
    blockTokens,
    blockCount,
    regions: [region('layer.0', blockTokens * 8), region('layer.1', blockTokens * 24)],
  }
}

const slots = {
  blockIds: Uint32Array.of(0, 0, 3, 7, 7),
  offsets: Uint32Array.of(0, 3, 2, 0, 3),
}
const seeds = BigUint64Array.of(0n, 1n, 2n ** 64n - 1n, 0x0123456789abcdefn, 7n)

const allocator = createHostAllocator({ hugePages: false })
const kernels = createKernels({ threads: 2 })
const layout = layoutIn(allocator)
afterAll(() => layout.regions.forEach(({ memory }) => memory.free()))

describe('kernels', () => {
  test('write and digest the same, bit for bit, as those of the memory fabric', async () => {
    const clock = createSimClock(1)
    const fabric = createMemoryFabric({ clock, random: createSeededRandom(1) })
    const other = layoutIn(fabric.allocator)
    const run = async (own: KvKernels, caches: KvCacheLayout) => ({
      filled: await own.fill(caches, slots, seeds),
      digested: await own.digest(caches, slots),
      expected: await own.expect(caches, seeds),
      bytes: caches.regions.map(({ memory }) => Buffer.from(memory.bytes!)),
    })
    const theirs = run(fabric.kernels, other)
    const ours = await run(kernels, layout)
    expect(ours).toEqual(await clock.wait(theirs, 10_000))
    expect(ours.digested).toEqual(ours.filled)
    expect(ours.expected).toEqual(ours.filled)
    expect(new Set(ours.filled).size).toBe(seeds.length)
  })

  test('a changed byte changes the digest of its slot alone', async () => {
    await kernels.fill(layout, slots, seeds)
    const before = await kernels.digest(layout, slots)
    const { memory, blockStrideBytes, blockSizeBytes } = layout.regions[1]!
    const slotBytes = blockSizeBytes / blockTokens
    memory.bytes![leadBytes + 3 * blockStrideBytes + 2 * slotBytes + 5]! ^= 1
    const after = await kernels.digest(layout, slots)
    const changed = [...after].flatMap((digest, index) => (digest === before[index] ? [] : [index]))
    expect(changed).toEqual([2])
  })

  test('many jobs at once all get their own answer', async () => {
    const jobs = Array.from({ length: 200 }, (_, index) =>
      kernels.expect(layout, BigUint64Array.of(BigInt(index))),
    )
    const digests = (await Promise.all(jobs)).map(([digest]) => digest)
    expect(new Set(digests).size).toBe(200)
    expect(digests[7]).toBe((await kernels.expect(layout, BigUint64Array.of(7n)))[0])
  })

  const oneSlot = { blockIds: Uint32Array.of(1), offsets: Uint32Array.of(1) }
  const oneSeed = BigUint64Array.of(1n)
  const withRegion = (change: object): KvCacheLayout => ({
    ...layout,
    regions: [{ ...layout.regions[0]!, ...change }],
  })
  test.each<[string, () => Promise<unknown>]>([
    [
      'a block id past the end',
      () => kernels.digest(layout, { ...oneSlot, blockIds: Uint32Array.of(8) }),
    ],
    [
      'a token offset past the end',
      () => kernels.digest(layout, { ...oneSlot, offsets: Uint32Array.of(4) }),
    ],
    [
      'fewer offsets than ids',
      () => kernels.digest(layout, { ...oneSlot, offsets: new Uint32Array(0) }),
    ],
    ['fewer seeds than slots', () => kernels.fill(layout, oneSlot, new BigUint64Array(0))],
    [
      'a slot named twice',
      () =>
        kernels.fill(
          layout,
          { blockIds: Uint32Array.of(1, 1), offsets: Uint32Array.of(2, 2) },
          BigUint64Array.of(1n, 2n),
        ),
    ],
    ['slots of no whole words', () => kernels.digest(withRegion({ blockSizeBytes: 36 }), oneSlot)],
    [
      'a stride below the size',
      () => kernels.digest(withRegion({ blockStrideBytes: 16 }), oneSlot),
    ],
    ['a region past its memory', () => kernels.digest(withRegion({ blockCount: 9 }), oneSlot)],
    ['a fractional offset', () => kernels.digest(withRegion({ offsetBytes: 0.5 }), oneSlot)],
    ['a wrapping offset', () => kernels.digest(withRegion({ offsetBytes: 2 ** 53 - 8 }), oneSlot)],
  ])('%s is refused', async (_, attempt) => {
    await expect(attempt()).rejects.toThrow(RangeError)
  })

  test('memory of another maker is refused', async () => {
    const foreign = { kind: 'host', sizeBytes: 512, bytes: new Uint8Array(512), free() {} } as const
    await expect(kernels.digest(withRegion({ memory: foreign }), oneSlot)).rejects.toThrow(
      TypeError,
    )
  })

  test('memory that was freed is refused', async () => {
    const memory = allocator.allocate({ sizeBytes: 4_096 })
    memory.free()
    await expect(kernels.fill(withRegion({ memory }), oneSlot, oneSeed)).rejects.toThrow(RangeError)
  })

  test.each([0, -1, 1.5])('a pool of %d threads is refused', (threads) => {
    expect(() => createKernels({ threads })).toThrow(RangeError)
  })
})
