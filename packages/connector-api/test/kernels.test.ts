import { expect, test } from 'vitest'
import type { KvCacheLayout, KvMemory, TokenSlots } from '@kvferry/connector-api'
import { createMemoryFabric, createSeededRandom, createSimClock } from '../src/testing/index.ts'
import {
  fillWords,
  hashWords,
  register,
  slotBase,
  splitmix64,
} from '../src/testing/memory-fabric/hash64.ts'
import vectors from './vectors/kernels.json' with { type: 'json' }

const { kernels, allocator } = createMemoryFabric({
  clock: createSimClock(),
  random: createSeededRandom(1),
})

const value = (hex: string): bigint => BigInt(`0x${hex}`)
const low = (hex: string): number => Number(value(hex) & 0xffffffffn) | 0
const high = (hex: string): number => Number(value(hex) >> 32n) | 0
const hex = (bits: bigint): string => bits.toString(16).padStart(16, '0')
const registerHex = (): string =>
  hex((BigInt(register[1]! >>> 0) << 32n) | BigInt(register[0]! >>> 0))

interface RegionShape {
  readonly blockSizeBytes: number
  readonly offsetBytes?: number
  readonly gapBytes?: number
}

function createCaches(blockTokens: number, shapes: readonly RegionShape[], blockCount = 4) {
  const regions = shapes.map(({ blockSizeBytes, offsetBytes = 0, gapBytes = 0 }, index) => {
    const blockStrideBytes = blockSizeBytes + gapBytes
    const sizeBytes = offsetBytes + blockCount * blockStrideBytes
    const memory: KvMemory = allocator.allocate({ sizeBytes })
    const name = `layer ${index}`
    return { name, memory, offsetBytes, blockSizeBytes, blockStrideBytes, blockCount }
  })
  const caches: KvCacheLayout = {
    model: 'test',
    dtype: 'float16',
    layout: 'LBNHC',
    layerCount: shapes.length,
    kvHeadCount: 1,
    headSize: 1,
    blockTokens,
    blockCount,
    regions,
  }
  return { caches, memories: regions.map(({ memory }) => memory) }
}

const slotsOf = (...pairs: readonly (readonly [block: number, offset: number])[]): TokenSlots => ({
  blockIds: Uint32Array.from(pairs, ([block]) => block),
  offsets: Uint32Array.from(pairs, ([, offset]) => offset),
})

test('splitmix64 equals its golden vectors', () => {
  for (const { input, output } of vectors.splitmix64) {
    splitmix64(low(input), high(input))
    expect(registerHex(), input).toBe(output)
  }
})

test('content and hash of slots equal their golden vectors', () => {
  for (const { seed, regionIndex, content, hash } of vectors.slots) {
    const bytes = new Uint8Array(content.length / 2)
    const halves = new Uint32Array(bytes.buffer)
    slotBase(low(seed), high(seed), regionIndex)
    fillWords(halves, bytes.length / 8, register[0]!, register[1]!)
    expect(Buffer.from(bytes).toString('hex'), seed).toBe(content)
    hashWords(halves, bytes.length / 8, regionIndex)
    expect(registerHex(), seed).toBe(hash)
  }
  for (const { content, regionIndex, hash } of vectors.hashes) {
    const bytes = Uint8Array.from(Buffer.from(content, 'hex'))
    hashWords(new Uint32Array(bytes.buffer), bytes.length / 8, regionIndex)
    expect(registerHex(), content).toBe(hash)
  }
})

test('digests of whole caches equal their golden vectors: filled, found and expected', async () => {
  for (const { blockTokens, blockSizesBytes, seeds, digests } of vectors.caches) {
    const shapes = blockSizesBytes.map((blockSizeBytes) => ({ blockSizeBytes }))
    const { caches } = createCaches(blockTokens, shapes)
    const slots = slotsOf(...seeds.map((_, index) => [index, (index + 1) % blockTokens] as const))
    const seedValues = BigUint64Array.from(seeds, value)
    const expected = digests.map(value)
    expect([...(await kernels.expect(caches, seedValues))]).toEqual(expected)
    expect([...(await kernels.fill(caches, slots, seedValues))]).toEqual(expected)
    expect([...(await kernels.digest(caches, slots))]).toEqual(expected)
  }
})

test('fill touches its slots only, at any alignment, and digest reads no others', async () => {
  const shapes = [
    { blockSizeBytes: 64, offsetBytes: 3, gapBytes: 5 },
    { blockSizeBytes: 32, offsetBytes: 8 },
  ]
  const { caches, memories } = createCaches(4, shapes)
  const slots = slotsOf([2, 1], [0, 3])
  const seeds = BigUint64Array.of(11n, 12n)
  for (const memory of memories) memory.bytes!.fill(0x55)
  const digests = await kernels.fill(caches, slots, seeds)
  // Every byte outside the slots is as it was; changing them changes no digest.
  caches.regions.forEach((region, index) => {
    const bytes = memories[index]!.bytes!
    const slotBytes = region.blockSizeBytes / 4
    const isSlotByte = (at: number): boolean =>
      [...slots.blockIds].some((block, slot) => {
        const start =
          region.offsetBytes + block * region.blockStrideBytes + slots.offsets[slot]! * slotBytes
        return at >= start && at < start + slotBytes
      })
    bytes.forEach((byte, at) => {
      if (isSlotByte(at)) return
      expect(byte).toBe(0x55)
      bytes[at] = 0xaa
    })
  })
  expect(await kernels.digest(caches, slots)).toEqual(digests)
})

test('one flipped bit, exchanged slots and exchanged regions change a digest', async () => {
  const { caches, memories } = createCaches(2, [{ blockSizeBytes: 48 }, { blockSizeBytes: 48 }])
  const slots = slotsOf([1, 0])
  const [digest] = await kernels.fill(caches, slots, BigUint64Array.of(99n))
  const bytes = memories[1]!.bytes!
  for (const at of [48, 59, 71]) {
    bytes[at]! ^= 0x10
    expect((await kernels.digest(caches, slots))[0]).not.toBe(digest)
    bytes[at]! ^= 0x10
  }
  expect((await kernels.digest(caches, slots))[0]).toBe(digest)
  const first = memories[0]!.bytes!.slice()
  memories[0]!.bytes!.set(bytes)
  bytes.set(first)
  expect((await kernels.digest(caches, slots))[0]).not.toBe(digest)
})

test('slots that are none, sizes that fit no words and freed memory are refused', async () => {
  const { caches, memories } = createCaches(4, [{ blockSizeBytes: 64 }])
  const seeds = BigUint64Array.of(1n)
  await expect(kernels.digest(caches, slotsOf([4, 0]))).rejects.toThrow(RangeError)
  await expect(kernels.digest(caches, slotsOf([0, 4]))).rejects.toThrow(RangeError)
  await expect(kernels.fill(caches, slotsOf([0, 0], [1, 0]), seeds)).rejects.toThrow(TypeError)
  const odd = createCaches(4, [{ blockSizeBytes: 48 }])
  await expect(kernels.expect(odd.caches, seeds)).rejects.toThrow(RangeError)
  memories[0]!.free()
  await expect(kernels.digest(caches, slotsOf([0, 0]))).rejects.toThrow(TypeError)
})
