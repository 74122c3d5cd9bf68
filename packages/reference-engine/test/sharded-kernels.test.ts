/** Content belongs to heads: however many ranks share them out, digests are the same, and a moved head is seen. */
import { expect, it } from 'vitest'
import type { KvLayout } from '../src/core/core-messages.ts'
import { allocateKvCaches } from '../src/core/kv-caches.ts'
import { shardKernels } from '../src/core/sharded-kernels.ts'
import { resolveModel } from '../src/model-presets.ts'
import { createFabric } from './support/test-core.ts'

const slots = { blockIds: Uint32Array.of(0, 2, 2), offsets: Uint32Array.of(1, 0, 3) }
const seeds = BigUint64Array.of(5n, 6n, 2n ** 64n - 1n)

function open(model: string, kvScale: number, tpSize: number, kvLayout: KvLayout = 'LBNHC') {
  const { allocator, kernels } = createFabric()
  const shape = resolveModel(model, kvScale)
  const settings = { blockTokens: 4, blockCount: 4, tpSize, kvLayout }
  const { ranks } = allocateKvCaches(allocator, shape, settings)
  const caches = ranks.map(({ layout }) => layout)
  return { caches: caches[0]!, memory: ranks[0]!.memory, sharded: shardKernels(kernels, caches) }
}

// At the last scale a head has half a word: two of them make a share.
it.each([
  ['tiny', 1, [1, 2]],
  ['llama-3.1-8b', 16, [1, 2, 4, 8]],
  ['llama-3.1-8b', 128, [1, 2, 4]],
])('%s at scale %i: the same digests with %j ranks', async (model, kvScale, sizes) => {
  const found = await Promise.all(
    sizes.map(async (tpSize) => {
      const { caches, sharded } = open(model, kvScale, tpSize)
      const filled = await sharded.fill(caches, slots, seeds)
      expect(await sharded.digest(caches, slots)).toEqual(filled)
      expect(await sharded.expect(caches, seeds)).toEqual(filled)
      return filled
    }),
  )
  for (const digests of found) expect(digests).toEqual(found[0])
  expect(new Set(found[0]).size).toBe(seeds.length)
})

it('whichever of tokens and heads come first, digests are the same, and bytes lie elsewhere', async () => {
  const [byToken, byHead] = [open('tiny', 1, 1), open('tiny', 1, 1, 'LBHNC')]
  const filled = await byToken.sharded.fill(byToken.caches, slots, seeds)
  expect(await byHead.sharded.fill(byHead.caches, slots, seeds)).toEqual(filled)
  const { blockSizeBytes } = byHead.caches.regions[0]!
  const [from, to] = [byToken, byHead].map(({ memory }) => memory.bytes!)
  const size = blockSizeBytes / 8
  // Token 1 of block 0, its second head.
  expect(to!.subarray(5 * size, 6 * size)).toEqual(from!.subarray(3 * size, 4 * size))
  expect(to!.subarray(3 * size, 4 * size).every((byte) => byte === 0)).toBe(true)
})

it('two heads of one token that changed places are seen', async () => {
  const { caches, memory, sharded } = open('tiny', 1, 1)
  const filled = await sharded.fill(caches, slots, seeds)
  const headSizeBytes = caches.regions[0]!.blockSizeBytes / 8
  const start = 2 * headSizeBytes
  const token = memory.bytes!.slice(start, start + 2 * headSizeBytes)
  memory.bytes!.set(token.subarray(headSizeBytes), start)
  memory.bytes!.set(token.subarray(0, headSizeBytes), start + headSizeBytes)
  const digests = await sharded.digest(caches, slots)
  expect(digests[0]).not.toBe(filled[0])
  expect(digests.slice(1)).toEqual(filled.slice(1))
})
