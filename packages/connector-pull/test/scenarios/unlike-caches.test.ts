/**
 * Accidents of caches that differ from what the other side, or the engine itself, took for granted. Each test
 * has upstream's number and, in its first line, what happens there.
 */
import type { KvCacheLayout, KvRegionLayout } from '@kvferry/connector-api'
import { factsOf } from '@kvferry/connector-api/protocol'
import { Engine, type EngineRequest, type World } from '@kvferry/connector-api/testing'
import { expect, test, vi } from 'vitest'
import { pull } from '../../src/index.ts'
import {
  createPair,
  createWorld,
  prompt,
  startLoad,
  until,
  untilAllFree,
} from '../fixtures/world.ts'

const oneRank = { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 }

type Change = (region: KvRegionLayout, index: number) => Partial<KvRegionLayout>

/** The toy's cache with its regions changed. */
function cachesOf(world: World, change: Change): Pick<KvCacheLayout, 'regions'> {
  const blockSizeBytes = 64
  const regions = ['layer-0', 'layer-1'].map((name, index) => {
    const plain = { name, offsetBytes: 0, blockSizeBytes, blockStrideBytes: 64, blockCount: 64 }
    const memory = world.fabric.allocator.allocate({ sizeBytes: 32_768 })
    return { ...plain, memory, ...change({ ...plain, memory }, index) }
  })
  return { regions }
}

/** The bytes of a request's blocks, region after region. */
const bytesOf = ({ caches }: Engine, { blocks }: EngineRequest): Uint8Array[] =>
  caches.regions.flatMap(({ memory, offsetBytes, blockStrideBytes, blockSizeBytes }) =>
    [...blocks].map((block) => {
      const start = offsetBytes + block * blockStrideBytes
      return memory.bytes!.subarray(start, start + blockSizeBytes)
    }),
  )

/** A load whose every block of every region is marked; answers how it ended, and whether each is where it belongs. */
async function load(world: World, p: Engine, d: Engine) {
  const id = `p-for-${d.engineId}`
  const params = await p.prefill(id, prompt, 30)
  bytesOf(p, p.requests.get(id)!).forEach((bytes, index) => bytes.fill(index + 1))
  const request = d.admit('d-r0', 30, params)
  d.step()
  await until(world, () => request.outcome !== 'loading')
  const isRight = bytesOf(d, request).every((bytes, index) =>
    bytes.every((byte) => byte === index + 1),
  )
  return { outcome: request.outcome, errorCode: request.errorCode, isRight }
}

const loaded = { outcome: 'loaded', errorCode: null, isRight: true }
const refused = { outcome: 'failed', errorCode: 'ERR_KV_PEER_INCOMPATIBLE', isRight: false }

test('kvcached #311, kvcached #312 memory that is allocated for more blocks than are used (20)', async () => {
  // Upstream: layout and block count were taken from the size of the tensor, and assertions failed.
  const world = createWorld()
  const roomy: Change = () => ({ offsetBytes: 4_096, blockStrideBytes: 192 })
  const p = await Engine.start(world, { engineId: 'p0', caches: cachesOf(world, roomy) })
  const d = await Engine.start(world, { engineId: 'd0', caches: cachesOf(world, () => ({})) })
  expect(await load(world, p, d)).toEqual(loaded)
})

test('#53780 regions of one cache with other numbers of blocks', async () => {
  // Upstream: one number of blocks stood for all regions, whatever each had.
  const world = createWorld()
  const uneven = cachesOf(world, (_, index) => ({ blockCount: 64 + 32 * index }))
  const start = Engine.start(world, { engineId: 'p0', caches: uneven })
  await expect(start).rejects.toThrow(/layer-1: blockCount is 96, the cache's is 64/)
  // The memory is not the agent's: nothing of the refused cache stayed registered.
  for (const { memory } of uneven.regions) memory.free()
})

test('#58470 a draft model’s layer stands in another place of the list', async () => {
  // Upstream: regions are paired by their order, and with speculative decoding KV went to the wrong ones.
  const world = createWorld()
  const draft: Change = ({ name }, index) =>
    // A layer of its own size, too.
    index === 1 ? { name: 'draft', blockSizeBytes: 32 } : { name }
  const turned = (caches: Pick<KvCacheLayout, 'regions'>) => ({
    regions: [...caches.regions].reverse(),
  })
  const p = await Engine.start(world, { engineId: 'p0', caches: cachesOf(world, draft) })
  const d = await Engine.start(world, { engineId: 'd0', caches: turned(cachesOf(world, draft)) })
  expect(await load(world, p, d)).toEqual(refused)
  expect(d.logs.join()).toContain('regions[0].name')
  const d1 = await Engine.start(world, { engineId: 'd1', caches: cachesOf(world, draft) })
  expect(await load(world, p, d1)).toEqual(loaded)
})

test('#55776 two revisions of one model', async () => {
  // Upstream: the revision is in no hash, and KV of other weights is taken for the model's own.
  const world = createWorld()
  const of = (model: string) => ({ ...cachesOf(world, () => ({})), model })
  const p = await Engine.start(world, { engineId: 'p0', caches: of('toy@first') })
  const d = await Engine.start(world, { engineId: 'd0', caches: of('toy@second') })
  expect(await load(world, p, d)).toEqual(refused)
  expect(d.logs.join()).toMatch(/model.*toy@second.*toy@first/)
  const d1 = await Engine.start(world, { engineId: 'd1', caches: of('toy@first') })
  expect(await load(world, p, d1)).toEqual(loaded)
})

test('#49230, #50620, dynamo #10027, dynamo #12821 engines of other builds, or inside of other programs', async () => {
  // Upstream: version and settings of the program around it were in the hash, and engines that fit refused each other.
  const { d } = await createPair()
  const { regions, ...facts } = factsOf(pull, d.caches, oneRank)
  // Each says something about bytes or about who reads them, and none says who built the program.
  expect(Object.keys(facts).toSorted()).toEqual([
    ...['blockTokens', 'connector', 'dtype', 'headSize', 'kvHeadCount', 'layerCount', 'layout'],
    ...['model', 'ppSize', 'tpSize', 'transferMode'],
  ])
  expect(Object.keys(regions[0]!)).toEqual(['name', 'blockSizeBytes', 'blockStrideBytes'])
})

test('#45880 an engine of several pipeline stages', async () => {
  // Upstream: push alone got a way to serve it.
  const { d } = await createPair()
  const components = { config: { options: {} }, sideChannel: d.sideChannel } as never
  const create = () => pull.createWorker(components, { ...oneRank, ppSize: 2 })
  expect(create).toThrow(/one pipeline stage, not 2/)
})

test('#55434 a long prompt in many layers: neighbours leave in one descriptor', async () => {
  // Upstream: a descriptor for each block of each layer, 112,000 of them for one transfer.
  const pair = await createPair()
  const rest = Array.from({ length: 56 }, (_, index) => index + 8)
  // The engine takes from both ends in turn: blocks 0 to 7, in order.
  const inOrder = (): number[] => [1, 3, 5, 7, ...rest, 6, 4, 2, 0]
  pair.p.free = inOrder()
  pair.d.free = inOrder()
  const together = await startLoad(pair, { id: 'together' })
  await until(pair.world, () => together.outcome === 'loaded')
  const apart = await startLoad(pair, { id: 'apart' })
  await until(pair.world, () => apart.outcome === 'loaded')
  expect(pair.d.stats.flatMap(({ loads }) => loads)).toMatchObject([
    { descriptorsBeforeMerge: 16, descriptorsAfterMerge: 2 },
    { descriptorsBeforeMerge: 16, descriptorsAfterMerge: 16 },
  ])
  expect(await pair.d.isLoadedRight(together, prompt)).toBe(true)
  await untilAllFree(pair)
})

test('#58063 the producer has gone: what it lent is given back while its consumer lives on', async () => {
  // Upstream: mappings of an engine that was taken away stayed for as long as the other one lived.
  const pair = await createPair()
  const removePeer = vi.spyOn(pair.d.agent, 'removePeer')
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(removePeer).not.toHaveBeenCalled()
  pair.p.kill()
  await until(pair.world, () => removePeer.mock.calls.length > 0, 1_000)
  await pair.world.clock.advance(1_000)
  expect(removePeer).toHaveBeenCalledTimes(1)
})
