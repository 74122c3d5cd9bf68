/**
 * Accidents that leaked blocks, freed them too early, or answered with wrong text. Each test has upstream's
 * number and, in its first line, what happens there.
 */
import { asEngineId } from '@kvferry/connector-api'
import { Engine } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import {
  createPair,
  prompt,
  slowFabric,
  startLoad,
  until,
  untilAllFree,
} from '../fixtures/world.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]
const options = { leaseDurationMs: 2_000 }
const shortPair = (times = {}) => createPair({ times, p: { options }, d: { options } })

test('#20139, #21570, aws-do-eks #84 the lease runs out before the READ', async () => {
  // Upstream: P frees on a timeout, D reads what is there now and answers 200 with garbage.
  const pair = await shortPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  await pair.world.clock.advance(2_100)
  // Its blocks belong to somebody else.
  await pair.p.prefill('p-other', 8, 30)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
})

test('#25897 a request waits on D for longer than the lease', async () => {
  // Upstream: its KV was gone after 120 s, then after 480 s, whether or not anybody waited for it.
  const pair = await shortPair()
  const request = pair.d.arrive('d-r0', 30, await pair.p.prefill('p-r0', prompt, 30))
  pair.d.step()
  await pair.world.clock.advance(9 * options.leaseDurationMs)
  pair.d.allocate(request)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
})

test('#35764, #38027, #41383 D dies with requests in its queue', async () => {
  // Upstream: P's blocks were stranded for 480 s, a time that was too short for long queues all the same.
  const pair = await shortPair()
  pair.d.arrive('d-r0', 30, await pair.p.prefill('p-r0', prompt, 30))
  pair.d.step()
  await pair.world.clock.advance(10_000)
  pair.d.kill()
  await until(pair.world, () => pair.p.free.length === 64, options.leaseDurationMs + 10)
})

test('#50789, #58222 a renewed lease is older than one that has expired', async () => {
  // Upstream: the scan stopped at the first unexpired entry, and P refused work while it idled.
  const pair = await shortPair()
  pair.d.arrive('d-r0', 30, await pair.p.prefill('p-renewed', prompt, 30))
  pair.d.step()
  await pair.p.prefill('p-orphan', prompt, 30)
  await pair.world.clock.advance(2_100)
  expect(pair.p.outputs.flatMap(({ sent }) => sent)).toEqual(['p-orphan'])
})

test('#32255 a request is aborted while it loads', async () => {
  // Upstream: its blocks were freed while the NIC still wrote into them.
  const pair = await createPair({ times: slowFabric })
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  pair.d.finish('d-r0', 'aborted')
  const free = pair.d.free.length
  await pair.world.clock.advance(2)
  expect(pair.d.agent.counters().transfersOpen).toBe(1)
  expect(pair.d.free.length).toBe(free)
  await until(pair.world, () => request.outcome === 'freed')
  await untilAllFree(pair)
})

test('#41269 D gives a request up before it was ever admitted', async () => {
  // Upstream: the connector never hears of it, and P's blocks are stranded.
  const pair = await createPair()
  pair.d.arrive('d-r0', 30, await pair.p.prefill('p-r0', prompt, 30))
  pair.d.finish('d-r0', 'failed')
  await until(pair.world, () => pair.p.free.length === 64, 100)
})

test('#43509 two children of one request share its params, one on each engine', async () => {
  // Upstream: the first to notify frees the blocks that the other is reading.
  const pair = await createPair({ times: slowFabric })
  const d1 = await Engine.start(pair.world, { engineId: 'd1' })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const loads = [pair.d, d1].map((engine) => ({ engine, request: engine.admit('r0', 30, params) }))
  for (const { engine } of loads) engine.step()
  await until(pair.world, () => loads.every(({ request }) => request.outcome !== 'loading'))
  const good = loads.filter(({ request }) => request.outcome === 'loaded')
  expect(good).toHaveLength(1)
  expect(await good[0]!.engine.isLoadedRight(good[0]!.request, prompt)).toBe(true)
})

test('#47021 the next turn comes when D’s blocks are gone', async () => {
  // Upstream: P read expired blocks of D, since it did not know their time.
  const both = { bidirectional: true, decoderBlocksTtlMs: 10_000 }
  const pair = await createPair({ p: { options: both }, d: { options: both } })
  const first = await startLoad(pair)
  await until(pair.world, () => first.outcome === 'loaded')
  first.view = { ...first.view, computedTokenCount: 30 }
  const params = JSON.parse(JSON.stringify(pair.d.finish('d-r0', 'stopped')))
  await pair.world.clock.advance(10_100)
  const request = pair.p.admit('p-t2', 40, params)
  pair.p.step()
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(pair.p.agent.counters().transfersPosted).toBe(0)
})

test('#54689 the connection to P is given up while a READ from it is open', async () => {
  // Upstream: the cleanup of stale engines killed transfers in flight.
  const pair = await createPair({ times: slowFabric })
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  await pair.world.clock.advance(1)
  pair.world.channels.faults.breakAssociations(p0, d0)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
})

test('#52234 several KV groups', async () => {
  // Upstream: a failed load of a hybrid model was answered 200, with garbage.
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 8)
  const groups = [(params['remote_block_ids'] as unknown[][])[0], [1]]
  const request = pair.d.arrive('d-r0', 8, { ...params, remote_block_ids: groups })
  expect(pair.d.matched(request)).toBe(0)
})

test('#57661 two layers begin at one address and differ in length', async () => {
  // Upstream: they were merged into one region, and the text was garbled.
  const pair = await createPair()
  const [short, long] = pair.p.caches.regions
  expect(short!.memory).toBe(long!.memory)
  const caches = (of: Engine) => {
    const [region] = of.caches.regions
    const regions = [
      { ...region!, name: 'short', blockSizeBytes: 32 },
      { ...region!, name: 'long' },
    ]
    return { ...of.caches, regions }
  }
  const world = pair.world
  const p = await Engine.start(world, { engineId: 'p1', caches: caches(pair.p) })
  const d = await Engine.start(world, { engineId: 'd1', caches: caches(pair.d) })
  const request = d.admit('d-r0', 30, await p.prefill('p-r0', prompt, 30))
  d.step()
  await until(world, () => request.outcome !== 'loading')
  // Refused, since bytes would be written twice: never merged.
  expect(request.outcome).toBe('failed')
})

test('#37333, #42895, #43523, #50765 TP sizes that are not the same', async () => {
  // Upstream: heads were mapped wrongly between ranks, or looked for outside of what was registered.
  const pair = await createPair({ p: { tpSize: 4 }, d: { tpSize: 2, kvHeadCount: 4 } })
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  // TP sizes of which neither is a multiple of the other are refused before anything is promised.
  const odd = await createPair({ p: { tpSize: 3 }, d: { tpSize: 2 } })
  const refused = odd.d.arrive('d-r0', 30, await odd.p.prefill('p-r0', prompt, 30))
  expect(odd.d.matched(refused)).toBe(0)
})

test('#38935, #47871 a cache in another order', async () => {
  // Upstream: the CPU backend's layout differed from the GPU's, and accuracy was lost.
  const heads = { kvHeadCount: 4 }
  const pair = await createPair({
    p: { ...heads, layout: 'LBNHC' },
    d: { ...heads, layout: 'LBHNC' },
  })
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome !== 'loading')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  // An order in which layers lie elsewhere too can't be mapped.
  const odd = await createPair({
    p: { ...heads, layout: 'BLNHC' },
    d: { ...heads, layout: 'LBNHC' },
  })
  const refused = await startLoad(odd)
  await until(odd.world, () => refused.outcome !== 'loading')
  expect(refused.errorCode).toBe('ERR_KV_PEER_INCOMPATIBLE')
})

test('#55854 what failed in transport and what expired are counted apart', async () => {
  // Upstream: one counter for both.
  const pair = await shortPair()
  pair.world.fabric.faults.failNextPosts(pair.d.agent.name, 1)
  const broken = await startLoad(pair)
  await until(pair.world, () => broken.outcome === 'failed')
  const params = await pair.p.prefill('p-late', prompt, 30)
  await pair.world.clock.advance(2_100)
  const late = pair.d.admit('d-late', 30, params)
  pair.d.step()
  await until(pair.world, () => late.outcome === 'failed')
  expect(pair.d.metrics.get('kv_loads_failed_total ERR_KV_TRANSFER_FAILED')).toBe(1)
  expect(pair.d.metrics.get('kv_loads_failed_total ERR_KV_LEASE_EXPIRED')).toBe(1)
})
