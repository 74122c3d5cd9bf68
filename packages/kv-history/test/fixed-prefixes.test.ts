import { readFileSync } from 'node:fs'
import {
  blockKeyCount,
  chainBlockKeys,
  silentLogger,
  silentMetrics,
  type KvCacheLayout,
} from '@kvferry/connector-api'
import {
  createMemoryFabric,
  createSeededRandom,
  createSimClock,
} from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { tieredHistory } from '../src/index.ts'
import { xxhash64 } from './fixtures/xxhash64.ts'

const blockTokens = 16
const layerCount = 24
const blockCount = 2 * 278
const identity = { model: 'm', layout: 'l' }
/** 4,441 tokens, of which a consumer computes the last itself. */
const prompt = Uint32Array.from({ length: 4_440 }, (_, index) => (index * 7_919) % 50_000)

describe('RT-36 fixed prefixes', () => {
  test.each([
    [1, 16],
    [161, 2_576],
    [277, 4_432],
    [278, 4_440],
  ])('%d blocks are %d tokens', (matched, tokens) => {
    const keys = chainBlockKeys(identity, prompt, blockTokens)
    expect(blockKeyCount(keys)).toBe(278)
    expect(Math.min(matched * blockTokens, prompt.length)).toBe(tokens)
    const prefix = chainBlockKeys(identity, prompt.subarray(0, tokens), blockTokens)
    expect(Buffer.compare(prefix, keys.subarray(0, prefix.length))).toBe(0)
    expect(blockKeyCount(prefix)).toBe(matched)
  })
})

/** One head of 2 values of 16 bits a token, over the memory agent's kernels. */
function createEngine(random = createSeededRandom(3)) {
  const clock = createSimClock()
  const { kernels, allocator } = createMemoryFabric({ clock, random: createSeededRandom(1) })
  const blockSizeBytes = blockTokens * 4
  const regions = Array.from({ length: layerCount }, (_, layer) => {
    const memory = allocator.allocate({ sizeBytes: blockCount * blockSizeBytes })
    const size = { blockSizeBytes, blockStrideBytes: blockSizeBytes, blockCount }
    return { name: `layer${layer}`, memory, offsetBytes: 0, ...size }
  })
  const caches: KvCacheLayout = {
    ...{ model: 'm', dtype: 'bfloat16', layout: 'LBNHC', layerCount, kvHeadCount: 1, headSize: 2 },
    ...{ blockTokens, blockCount, regions },
  }
  const history = (deviceSlots: number) => {
    const provider = tieredHistory({
      kernels,
      device: { allocator, memory: 'host' },
      host: { allocator },
    })
    return provider.open({
      ...{ caches, clock, random, logger: silentLogger, metrics: silentMetrics },
      gpuCacheBytes: deviceSlots * layerCount * blockSizeBytes,
      hostBlockCount: 278,
    })
  }
  const bytes = (layer: number, block: number) =>
    regions[layer]!.memory.bytes!.subarray(block * blockSizeBytes, (block + 1) * blockSizeBytes)
  return { clock, random, history, bytes }
}

describe('RT-37 raw bits', () => {
  const cases = [5, 278].flatMap((slots) => [1, 161, 277, 278].map((n) => [slots, n] as const))
  test.each(cases)('%d device slots, %d blocks come back as they were', async (slots, count) => {
    const engine = createEngine()
    const history = engine.history(slots)
    const tokens = prompt.subarray(0, Math.min(count * blockTokens, prompt.length))
    const keys = chainBlockKeys(identity, tokens, blockTokens)
    const source = Uint32Array.from({ length: count }, (_, index) => index)
    const saved: Buffer[] = []
    for (let layer = 0; layer < layerCount; layer += 1) {
      for (const block of source) {
        // Every pattern of 16 bits, among them NaN, infinities and -0.
        const content = engine.random.bytes(64)
        engine.bytes(layer, block).set(content)
        saved.push(Buffer.from(content))
      }
    }
    const ended = history.offer({ keys, blockIds: source })
    await engine.clock.wait(ended!, 60_000)
    for (let layer = 0; layer < layerCount; layer += 1) {
      for (const block of source) engine.bytes(layer, block).fill(0)
    }
    const reservation = history.reserve(keys, 0)!
    expect(reservation.blockCount).toBe(count)
    const reversed = Uint32Array.from(source, (block) => blockCount - 1 - block)
    const result = await engine.clock.wait(history.restore(reservation.lease, reversed), 60_000)
    const deviceBlockCount = Math.min(slots, count)
    expect(result).toEqual({ kind: 'restored', blockCount: count, deviceBlockCount })
    const hostBlocks = Math.max(0, count - slots)
    expect(history.gauges()).toMatchObject({ hostBlocks })
    expect(history.counters()).toMatchObject({ historyHostHitBlocks: hostBlocks })
    for (let layer = 0; layer < layerCount; layer += 1) {
      for (const block of source) {
        const restored = engine.bytes(layer, reversed[block]!)
        expect(saved[layer * count + block]!.compare(restored)).toBe(0)
        if (count < 278) expect(engine.bytes(layer, block).every((byte) => byte === 0)).toBe(true)
      }
    }
    await history.close()
    expect(history.gauges()).toMatchObject({ deviceBytesReserved: 0, hostBytesReserved: 0 })
  })

  test('a tier takes memory only when its first block comes', async () => {
    const engine = createEngine()
    const history = engine.history(5)
    expect(history.gauges()).toMatchObject({ deviceBytesReserved: 0, hostBytesReserved: 0 })
    const keys = chainBlockKeys(identity, prompt.subarray(0, 16), blockTokens)
    await engine.clock.wait(history.offer({ keys, blockIds: Uint32Array.of(0) })!, 1_000)
    expect(history.gauges()).toMatchObject({
      deviceBytesReserved: 5 * 24 * 64,
      hostBytesReserved: 0,
    })
  })
})

describe('the 64-bit chain of the design text', () => {
  const vector = JSON.parse(
    readFileSync(new URL('./vectors/xxhash-chain.json', import.meta.url), 'utf8'),
  ) as {
    hashes: Record<string, string>
    chains: { blockTokens: number; tokenCount: number; keys: string[] }[]
  }
  const hex = (value: bigint) => value.toString(16).padStart(16, '0')

  test.each(Object.entries(vector.hashes))('XXH64 of %j', (text, hash) => {
    expect(hex(xxhash64(Buffer.from(text)))).toBe(hash)
  })

  test.each(vector.chains)('of $tokenCount tokens', ({ blockTokens: size, tokenCount, keys }) => {
    const ones = (1n << 64n) - 1n
    let previous = ones
    keys.forEach((key, block) => {
      const count = Math.min(size, tokenCount - block * size)
      const input = Buffer.alloc(2 + 1 + 8 + 4 + 4 * count + 8)
      input.write('v1')
      input.writeUInt8(block === 0 ? 1 : 0, 2)
      input.writeBigUInt64LE(previous, 3)
      input.writeUInt32LE(count, 11)
      for (let at = 0; at < count; at += 1) input.writeInt32LE(block * size + at, 15 + 4 * at)
      input.writeBigUInt64LE(ones, 15 + 4 * count)
      previous = xxhash64(input)
      expect(hex(previous)).toBe(key)
    })
  })
})
