/** The copying kernels of the memory fabric, by hand: a byte names its block, token and head. */
import { expect, test } from 'vitest'
import {
  blockBytes,
  ConnectorError,
  isHeadMajor,
  limits,
  slabLayout,
  type KvCacheLayout,
  type KvMemory,
} from '@kvferry/connector-api'
import { createMemoryFabric, createSeededRandom, createSimClock } from '../src/testing/index.ts'

const { kernels, allocator } = createMemoryFabric({
  clock: createSimClock(),
  random: createSeededRandom(1),
})

const heads = 2
const blockCount = 4

/** One byte a head and token; regions follow one another in one memory. */
function caches(
  layout: string,
  blockTokens: number,
  memory: KvMemory,
  regionCount = 1,
  offsetBytes = 0,
): KvCacheLayout {
  const blockSizeBytes = blockTokens * heads
  const regions = Array.from({ length: regionCount }, (_, index) => ({
    ...{ name: `layer.${index}`, memory },
    ...{ offsetBytes: offsetBytes + index * blockCount * blockSizeBytes },
    ...{ blockSizeBytes, blockStrideBytes: blockSizeBytes, blockCount },
  }))
  return {
    ...{ model: 'test', dtype: 'int8', layout, layerCount: regionCount, kvHeadCount: heads },
    ...{ headSize: 1, blockTokens, blockCount, regions },
  }
}

const allocate = (sizeBytes = 64) => allocator.allocate({ sizeBytes })
const filled = (bytes: readonly number[]) => {
  const memory = allocate(bytes.length)
  memory.bytes!.set(bytes)
  return memory
}
const counting = (length: number) => Array.from({ length }, (_, index) => index + 1)
const ids = (...values: number[]) => Uint32Array.from(values)

test('gather packs block after block, in each its regions; scatter is the way back', async () => {
  const memory = filled(counting(2 * 4 * 4))
  const slab = { memory: allocate(40), offsetBytes: 3 }
  const source = caches('LBNHC', 2, memory, 2)
  await kernels.gather(source, ids(3, 0, 3), slab)
  const block = (id: number) =>
    [0, 16].flatMap((base) => counting(4).map((at) => base + id * 4 + at))
  expect([...slab.memory.bytes!]).toEqual([
    ...[0, 0, 0],
    ...[...block(3), ...block(0), ...block(3)],
    ...Array.from({ length: 13 }, () => 0),
  ])
  const target = caches('LBNHC', 2, allocate(32), 2)
  await kernels.scatter(slab, target, ids(1, 2))
  const slots = caches('LBNHC', 2, target.regions[0]!.memory, 2)
  const copy = { memory: allocate(16), offsetBytes: 0 }
  await kernels.gather(slots, ids(1, 2), copy)
  expect([...copy.memory.bytes!]).toEqual([...block(3), ...block(0)])
  expect(target.regions[0]!.memory.bytes!.filter((byte) => byte !== 0)).toHaveLength(16)
})

test('a slab seen as caches has the same blocks under new ids', async () => {
  const source = caches('LBHNC', 2, filled(counting(32)), 2)
  const slab = { memory: allocate(64), offsetBytes: 8 }
  await kernels.gather(source, ids(2, 1), slab)
  const packed = slabLayout(source, slab, 2)
  expect(blockBytes(packed)).toBe(blockBytes(source))
  const other = { memory: allocate(16), offsetBytes: 0 }
  await kernels.gather(packed, ids(0, 1), other)
  expect([...other.memory.bytes!]).toEqual([...slab.memory.bytes!.subarray(8, 24)])
})

// A byte is 10 * token + head.
const tokens = (...list: number[]) => list.flatMap((token) => [10 * token, 10 * token + 1])
const byHead = (...list: number[]) => [
  ...list.map((token) => 10 * token),
  ...list.map((token) => 10 * token + 1),
]

test('relayout from tokens before heads to heads before tokens, in larger blocks', async () => {
  // Blocks of two tokens in the order 2, 0, 1 hold tokens 1 to 6.
  const source = caches(
    'NHD',
    2,
    filled([...tokens(3, 4), ...tokens(5, 6), ...tokens(1, 2), 0, 0, 0, 0]),
  )
  const target = caches('HND', 3, allocate(24))
  const from = { caches: source, blockIds: ids(2, 0, 1) }
  await kernels.relayout(from, { caches: target, blockIds: ids(3, 1) }, 6)
  const zeroes = [0, 0, 0, 0, 0, 0]
  expect([...target.regions[0]!.memory.bytes!]).toEqual([
    ...zeroes,
    ...byHead(4, 5, 6),
    ...zeroes,
    ...byHead(1, 2, 3),
  ])
})

test('relayout passes over tokens at either start and leaves other slots as they are', async () => {
  const source = caches('LBHNC', 4, filled([...byHead(1, 2, 3, 4), ...counting(24).fill(0)]))
  const target = caches('LBNHC', 2, filled(counting(16).fill(99)))
  const from = { caches: source, blockIds: ids(0), firstToken: 1 }
  await kernels.relayout(from, { caches: target, blockIds: ids(2, 0), firstToken: 1 }, 2)
  const bytes = [...target.regions[0]!.memory.bytes!]
  expect(bytes.slice(8, 12)).toEqual([99, 99, ...tokens(2)])
  expect(bytes.slice(0, 4)).toEqual([...tokens(3), 99, 99])
  expect(bytes.filter((byte) => byte !== 99)).toHaveLength(4)
})

test('relayout in place turns pieces by head into one block by head', async () => {
  const memory = filled([...byHead(1, 2), ...byHead(3, 4), ...counting(8)])
  const pieces = caches('LBHNC', 2, memory)
  const whole = { ...caches('LBHNC', 4, memory), blockCount: 2 }
  const regions = whole.regions.map((region) => ({ ...region, blockCount: 2 }))
  const target = { caches: { ...whole, regions }, blockIds: ids(0) }
  await kernels.relayout({ caches: pieces, blockIds: ids(0, 1) }, target, 4)
  expect([...memory.bytes!]).toEqual([...byHead(1, 2, 3, 4), ...counting(8)])
  // The same pieces for another block would be overwritten before they are read.
  const crossed = { caches: pieces, blockIds: ids(2, 3) }
  await expect(kernels.relayout(crossed, target, 4)).resolves.toBeUndefined()
  const both = { ...target, blockIds: ids(0, 1) }
  const swapped = { caches: pieces, blockIds: ids(2, 3, 0, 1) }
  await expect(kernels.relayout(swapped, both, 8)).rejects.toThrow(RangeError)
})

const memory = allocate(32)
const cachesA = caches('LBNHC', 2, memory, 2)
const slab = { memory: allocate(64), offsetBytes: 0 }
const run = { caches: cachesA, blockIds: ids(0) }
const elsewhere = { caches: caches('LBNHC', 2, allocate(32), 2), blockIds: ids(0) }
const changed = (change: Partial<KvCacheLayout>) => ({ ...run, caches: { ...cachesA, ...change } })
const region = cachesA.regions[0]!

test.each<[string, () => Promise<void>]>([
  ['a block past the end', () => kernels.gather(cachesA, ids(4), slab)],
  ['a slab that is too short', () => kernels.gather(cachesA, ids(0), { ...slab, offsetBytes: 60 })],
  ['a negative offset', () => kernels.gather(cachesA, ids(0), { ...slab, offsetBytes: -1 })],
  ['a slab over a named block', () => kernels.gather(cachesA, ids(0), { memory, offsetBytes: 3 })],
  ['a block written twice', () => kernels.scatter(slab, cachesA, ids(1, 1))],
  [
    'regions that overlap where they are written',
    () => kernels.scatter(slab, { ...cachesA, regions: [region, region] }, ids(1)),
  ],
  [
    'a region past its memory',
    () => kernels.gather({ ...cachesA, regions: [{ ...region, offsetBytes: 20 }] }, ids(0), slab),
  ],
  ['no region', () => kernels.gather({ ...cachesA, regions: [] }, ids(0), slab)],
  ['more tokens than blocks hold', () => kernels.relayout(run, elsewhere, 3)],
  ['a first token behind them', () => kernels.relayout({ ...run, firstToken: 1 }, elsewhere, 2)],
  ['a negative count', () => kernels.relayout(run, elsewhere, -1)],
  ['other heads', () => kernels.relayout(changed({ kvHeadCount: 1 }), elsewhere, 2)],
  ['a layout without an order', () => kernels.relayout(changed({ layout: 'LBC' }), elsewhere, 2)],
  [
    'another number of regions',
    () => kernels.relayout(changed({ regions: [region] }), elsewhere, 2),
  ],
  [
    'other region names',
    () => kernels.relayout(changed({ regions: [...cachesA.regions].reverse() }), elsewhere, 2),
  ],
  ['tokens of another size', () => kernels.relayout(changed({ blockTokens: 4 }), elsewhere, 2)],
  ['blocks without tokens', () => kernels.relayout(changed({ blockTokens: 0 }), elsewhere, 0)],
])('%s is refused', async (_, attempt) => {
  await expect(attempt()).rejects.toThrow(RangeError)
})

test('what is no list of ids and memory of nowhere are refused, and more blocks than the limit', async () => {
  const list = [0] as unknown as Uint32Array
  await expect(kernels.gather(cachesA, list, slab)).rejects.toThrow(TypeError)
  const many = new Uint32Array(limits.blocksPerPostMax + 1)
  const error: unknown = await kernels
    .gather(cachesA, many, slab)
    .catch((caught: unknown) => caught)
  expect(ConnectorError.isInstance(error) && error.details).toMatchObject({
    limit: 'blocksPerPostMax',
  })
  const gone = allocate()
  gone.free()
  await expect(kernels.gather(cachesA, ids(0), { ...slab, memory: gone })).rejects.toThrow(
    RangeError,
  )
})

test('a layout names one order of tokens and heads, or none', () => {
  expect(['LBNHC', 'BLNHC', 'NHD'].map(isHeadMajor)).toEqual([false, false, false])
  expect(['LBHNC', 'BHLNC', 'HND'].map(isHeadMajor)).toEqual([true, true, true])
  for (const layout of ['', 'N', 'H', 'NHN', 'LBC']) {
    expect(() => isHeadMajor(layout)).toThrow(RangeError)
  }
})
