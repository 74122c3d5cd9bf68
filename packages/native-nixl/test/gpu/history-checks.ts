/**
 * History with its device tier in GPU memory and its host tier page-locked: what went through both comes back bit by bit,
 * wherever the engine wants it now (RT-36, RT-37), and nothing is allocated while the engine steps.
 */
import assert from 'node:assert/strict'
import { randomFillSync } from 'node:crypto'
import {
  blockBytes,
  blockKeyCount,
  chainBlockKeys,
  silentLogger,
  silentMetrics,
  type Clock,
  type Instant,
  type KvCacheLayout,
  type KvKernels,
  type KvMemoryAllocator,
} from '@kvferry/connector-api'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { tieredHistory } from '@kvferry/kv-history'
import {
  createDeviceAllocator,
  createHostAllocator,
  createKernels,
  lockHostMemory,
  type DeviceKvMemory,
} from '../../src/index.ts'
import type { GpuCheck } from './check.ts'

const blockTokens = 16
const layerCount = 24
const keptCount = 278
const blockCount = 2 * keptCount
/** 2 KV heads of 64 values of 16 bits: a block of one layer's K and V. */
const blockSizeBytes = 2 * blockTokens * 2 * 64 * 2
const regionSizeBytes = blockCount * blockSizeBytes
/** Blocks that were asked for, and the tokens they are: the last one is partial. */
const prefixes = [
  [1, 16],
  [161, 2_576],
  [277, 4_432],
  [278, 4_440],
] as const
/** NaN, quiet and signalling with payloads, infinities, zeros of both signs, the smallest value. */
const special = Uint16Array.of(0x7fc0, 0x7f81, 0xffff, 0x7f80, 0xff80, 0x8000, 0x0000, 0x0001)

/** The writer's deadline never comes: how many chunks it manages in 10 ms is not what is asked here. */
const standingClock: Clock = {
  now: () => 1_000 as Instant,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs)
    timer.unref()
    return { stop: () => clearTimeout(timer) }
  },
}

const lockedAllocator: KvMemoryAllocator = {
  allocate(options) {
    const memory = createHostAllocator().allocate(options)
    lockHostMemory(memory, { device: 0 })
    return memory
  },
}

function cachesOf(memory: DeviceKvMemory): KvCacheLayout {
  return {
    ...{ model: 'm', dtype: 'bfloat16', layout: 'LBNHC', layerCount, kvHeadCount: 2 },
    ...{ headSize: 128, blockTokens, blockCount },
    regions: Array.from({ length: layerCount }, (_, layer) => ({
      ...{ name: `layer${layer}`, memory, offsetBytes: layer * regionSizeBytes },
      ...{ blockSizeBytes, blockStrideBytes: blockSizeBytes, blockCount },
    })),
  }
}

function openHistory(kernels: KvKernels, caches: KvCacheLayout, deviceSlots: number) {
  const provider = tieredHistory({
    kernels,
    device: { allocator: createDeviceAllocator({ device: 0 }), memory: 'cuda' },
    host: { allocator: lockedAllocator },
  })
  return provider.open({
    ...{ caches, clock: standingClock, random: createSeededRandom(37) },
    ...{ logger: silentLogger, metrics: silentMetrics },
    gpuCacheBytes: deviceSlots * blockBytes(caches),
    hostBlockCount: keptCount,
  })
}

const partOf = (bytes: Buffer, layer: number, block: number): Buffer =>
  bytes.subarray(
    layer * regionSizeBytes + block * blockSizeBytes,
    layer * regionSizeBytes + (block + 1) * blockSizeBytes,
  )

/** Saves `count` blocks, clears the caches, and restores them to places in the opposite order. */
async function roundTrip(
  kernels: KvKernels,
  memory: DeviceKvMemory,
  slots: number,
  [count, tokenCount]: readonly [number, number],
): Promise<void> {
  const caches = cachesOf(memory)
  const history = openHistory(kernels, caches, slots)
  try {
    const tokens = Uint32Array.from({ length: tokenCount }, (_, index) => index)
    const keys = chainBlockKeys({ model: 'm', layout: 'LBNHC' }, tokens, blockTokens)
    assert.equal(blockKeyCount(keys), count)
    const source = Uint32Array.from({ length: count }, (_, block) => block)
    const before = Buffer.alloc(memory.sizeBytes)
    for (let layer = 0; layer < layerCount; layer += 1) {
      randomFillSync(before, layer * regionSizeBytes, count * blockSizeBytes)
      for (const block of source) partOf(before, layer, block).set(new Uint8Array(special.buffer))
    }
    memory.write(0, before)
    await history.offer({ keys, blockIds: source })
    memory.write(0, new Uint8Array(memory.sizeBytes))

    const { lease, blockCount: found } = history.reserve(keys, 0)!
    assert.equal(found, count)
    const reversed = source.map((block) => blockCount - 1 - block)
    const deviceBlockCount = Math.min(slots, count)
    const restored = await history.restore(lease, reversed)
    assert.deepEqual(restored, { kind: 'restored', blockCount: count, deviceBlockCount })
    const hostBlocks = Math.max(0, count - slots)
    assert.equal(history.gauges().hostBlocks, hostBlocks)
    assert.equal(history.counters().historyHostHitBlocks, hostBlocks)

    const after = Buffer.alloc(memory.sizeBytes)
    memory.read(0, after)
    const expected = Buffer.alloc(memory.sizeBytes)
    for (let layer = 0; layer < layerCount; layer += 1) {
      for (const block of source) {
        partOf(expected, layer, reversed[block]!).set(partOf(before, layer, block))
      }
    }
    // Blocks that nobody named stay as they were.
    assert.ok(after.equals(expected), 'bytes differ')
  } finally {
    await history.close()
  }
}

export function historyChecks(): GpuCheck[] {
  const kernels = createKernels({ threads: 1 })
  const allocator = createDeviceAllocator({ device: 0 })
  return [
    ...[5, keptCount].map((slots) => ({
      name: `history of ${slots} device slots: 1 to 278 blocks come back bit by bit (RT-36, RT-37)`,
      async run() {
        const memory = allocator.allocate({ sizeBytes: layerCount * regionSizeBytes })
        try {
          for (const prefix of prefixes) await roundTrip(kernels, memory, slots, prefix)
        } finally {
          memory.free()
        }
      },
    })),
    {
      name: 'history beside a GPU holds both tiers from the start, and gives them back',
      async run() {
        const memory = allocator.allocate({ sizeBytes: layerCount * regionSizeBytes })
        const caches = cachesOf(memory)
        const history = openHistory(kernels, caches, 5)
        const size = blockBytes(caches)
        const { deviceMemory, deviceBytesReserved, hostBytesReserved } = history.gauges()
        assert.equal(deviceMemory, 'cuda')
        assert.deepEqual([deviceBytesReserved, hostBytesReserved], [5 * size, keptCount * size])
        await history.close()
        assert.equal(history.gauges().hostBytesReserved, 0)
        memory.free()
      },
    },
    {
      name: 'whole blocks between caches and tiers, large and odd ones',
      run: () => blocks(kernels),
    },
  ]
}

/** Blocks that are cut into parts, ones that can't be cut evenly, and starts at no round address. */
async function blocks(kernels: KvKernels): Promise<void> {
  const sizes = [65_536, 24_576]
  const oddSizes = [65_536, 8_200]
  for (const [regionSizes, start] of [
    [sizes, 0],
    [oddSizes, 0],
    [sizes, 8],
  ] as const) {
    const count = 6
    const layoutIn = (memory: KvCacheLayout['regions'][number]['memory'], gap: number) => {
      let offsetBytes = start
      const regions = regionSizes.map((size, index) => {
        const blockStrideBytes = size + gap
        const region = { name: `layer${index}`, memory, offsetBytes, blockSizeBytes: size }
        offsetBytes += blockStrideBytes * count
        return { ...region, blockStrideBytes, blockCount: count }
      })
      const shape = { layerCount: regions.length, kvHeadCount: 1, headSize: 8, blockTokens: 8 }
      const names = { model: 'm', dtype: 'int8', layout: 'LBNHC' }
      return { ...names, ...shape, blockCount: count, regions } satisfies KvCacheLayout
    }
    const sizeBytes = 1 << 20
    const memory = createDeviceAllocator({ device: 0 }).allocate({ sizeBytes })
    const tier = lockedAllocator.allocate({ sizeBytes })
    const [caches, packed] = [layoutIn(memory, 64), layoutIn(tier, 0)]
    const content = randomFillSync(Buffer.alloc(sizeBytes))
    memory.write(0, content)
    tier.bytes!.fill(0)
    const [from, to] = [Uint32Array.of(5, 0, 3), Uint32Array.of(1, 4, 2)]
    await kernels.relayout(
      { caches, blockIds: from },
      { caches: packed, blockIds: to },
      from.length * 8,
    )
    const expected = Buffer.alloc(sizeBytes)
    caches.regions.forEach((region, index) => {
      const target = packed.regions[index]!
      from.forEach((id, at) => {
        const start = region.offsetBytes + id * region.blockStrideBytes
        const bytes = content.subarray(start, start + region.blockSizeBytes)
        expected.set(bytes, target.offsetBytes + to[at]! * target.blockStrideBytes)
      })
    })
    assert.ok(expected.equals(tier.bytes!), `blocks of ${regionSizes.join(' and ')} bytes`)
    memory.free()
    tier.free()
  }
}
