/**
 * RT-36, RT-37: KV that goes through both tiers of the history with the native kernels comes back bit by bit,
 * whatever the bits mean, and wherever the engine now wants it.
 */
import { randomFillSync } from 'node:crypto'
import {
  chainBlockKeys,
  silentLogger,
  silentMetrics,
  type Clock,
  type Instant,
  type KvCacheLayout,
} from '@kvferry/connector-api'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { tieredHistory } from '@kvferry/kv-history'
import { createHostAllocator, createKernels } from '@kvferry/native-nixl'
import { afterAll, describe, expect, it } from 'vitest'

const blockTokens = 16
const layerCount = 24
const keptCount = 278
const blockCount = 2 * keptCount
/** 2 KV heads of 64 values of 16 bits: a block of one layer's K and V. */
const blockSizeBytes = 2 * blockTokens * 2 * 64 * 2
const headSize = 128
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

const allocator = createHostAllocator({})
const kernels = createKernels({})
const random = createSeededRandom(37)
const regions = Array.from({ length: layerCount }, (_, layer) => {
  const memory = allocator.allocate({ sizeBytes: blockCount * blockSizeBytes })
  const size = { blockSizeBytes, blockStrideBytes: blockSizeBytes, blockCount }
  return { name: `layer${layer}`, memory, offsetBytes: 0, ...size }
})
const caches: KvCacheLayout = {
  ...{ model: 'm', dtype: 'bfloat16', layout: 'LBNHC', layerCount, kvHeadCount: 2, headSize },
  ...{ blockTokens, blockCount, regions },
}
afterAll(() => regions.forEach(({ memory }) => memory.free()))

const blockOf = (layer: number, block: number): Uint8Array =>
  regions[layer]!.memory.bytes!.subarray(block * blockSizeBytes, (block + 1) * blockSizeBytes)

describe('history over the native kernels', () => {
  const cases = [5, keptCount].flatMap((slots) =>
    [1, 161, 277, 278].map((n) => [slots, n] as const),
  )
  it.each(cases)('RT-37 %d device slots, %d blocks: equal bits', async (slots, count) => {
    const history = tieredHistory({
      kernels,
      device: { allocator, memory: 'host' },
      host: { allocator },
    }).open({
      ...{ caches, clock: standingClock, random, logger: silentLogger, metrics: silentMetrics },
      gpuCacheBytes: slots * layerCount * blockSizeBytes,
      hostBlockCount: keptCount,
    })
    try {
      const tokens = Uint32Array.from({ length: Math.min(16 * count, 4_440) }, (_, i) => i)
      const keys = chainBlockKeys({ model: 'm', layout: 'LBNHC' }, tokens, blockTokens)
      const source = Uint32Array.from({ length: count }, (_, block) => block)
      const saved = regions.map((_, layer) => {
        randomFillSync(regions[layer]!.memory.bytes!, 0, count * blockSizeBytes)
        for (const block of source) blockOf(layer, block).set(new Uint8Array(special.buffer))
        return Buffer.from(regions[layer]!.memory.bytes!.subarray(0, count * blockSizeBytes))
      })
      await history.offer({ keys, blockIds: source })
      for (const { memory } of regions) memory.bytes!.fill(0)

      const { lease, blockCount: found } = history.reserve(keys, 0)!
      expect(found).toBe(count)
      const reversed = source.map((block) => blockCount - 1 - block)
      const deviceBlockCount = Math.min(slots, count)
      const expected = { kind: 'restored', blockCount: count, deviceBlockCount }
      expect(await history.restore(lease, reversed)).toEqual(expected)
      expect(history.gauges()).toMatchObject({ hostBlocks: count - deviceBlockCount })
      const isRight = regions.every((_, layer) =>
        source.every((block) => {
          const start = block * blockSizeBytes
          const before = saved[layer]!.subarray(start, start + blockSizeBytes)
          return before.equals(blockOf(layer, reversed[block]!))
        }),
      )
      expect(isRight).toBe(true)
      // Slots that nobody named stay as they were.
      const zeros = Buffer.alloc((blockCount - count) * blockSizeBytes)
      for (const { memory } of regions) {
        expect(zeros.equals(memory.bytes!.subarray(0, zeros.length))).toBe(true)
      }
    } finally {
      await history.close()
    }
  })
})
