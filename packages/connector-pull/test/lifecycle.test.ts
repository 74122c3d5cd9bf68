import { asRequestId } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { pull } from '../src/index.ts'
import { Engine } from './fixtures/engine.ts'
import { createPair, createWorld, prompt, slowFabric, startLoad, until } from './fixtures/world.ts'

test('shutdown waits for open READs, leaves nothing registered and no timer, and is idempotent (24)', async () => {
  const pair = await createPair({ times: slowFabric })
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  const { clock } = pair.world
  await clock.advance(2)
  const ends = [pair.d.worker.shutdown(), pair.d.worker.shutdown(), pair.p.worker.shutdown()]
  await clock.wait(Promise.all(ends), 10_000)
  expect(pair.d.agent.counters()).toMatchObject({ transfersDone: 1, transfersOpen: 0 })
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  for (const engine of [pair.p, pair.d]) {
    await clock.wait(engine.scheduler.shutdown(), 10)
    await clock.wait(engine.agent.close(), 10_000)
    await clock.wait(engine.sideChannel.close(), 10)
    // Free memory would be busy while a region in it is registered.
    engine.caches.regions[0]!.memory.free()
  }
  await clock.runUntilIdle(1_000)
})

test('shutdown does not wait for ever for a READ that does not end', async () => {
  const pair = await createPair({ times: slowFabric })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  pair.world.fabric.faults.stall(pair.p.agent.name)
  await startLoad(pair)
  await pair.world.clock.advance(5)
  await pair.world.clock.wait(pair.d.worker.shutdown(), 6_000)
  expect(pair.d.logs.join()).toContain('READs are open at shutdown')
})

test('shutdown fails the loads that wait for a connection, and answers nobody any more', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await pair.world.clock.wait(pair.d.worker.shutdown(), 1_000)
  const { failed } = pair.d.worker.getTransferResults(new Set())
  expect(failed.map(({ error }) => error.code)).toEqual(['ERR_KV_CLOSED'])

  await pair.world.clock.wait(pair.p.worker.shutdown(), 1_000)
  const d1 = await Engine.start(pair.world, { engineId: 'd1' })
  const refused = d1.admit('d1-r0', 30, params)
  d1.step()
  await until(pair.world, () => refused.outcome === 'failed')
  expect(refused.errorCode).toBe('ERR_KV_CLOSED')
})

test('a producer that shuts down waits for a reader at work, and not for one that never came', async () => {
  const pair = await createPair({ times: slowFabric })
  await pair.p.prefill('p-unread', prompt, 4)
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  await pair.world.clock.advance(1)
  const startedAt = pair.world.clock.now()
  await pair.world.clock.wait(pair.p.worker.shutdown(), 10_000)
  expect(pair.d.agent.counters().transfersOpen).toBe(0)
  expect(pair.world.clock.now() - startedAt).toBeLessThan(100)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
})

test('a step after shutdown starts nothing: a lease is over at once, a load fails', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  await pair.world.clock.wait(pair.p.worker.shutdown(), 10)
  await pair.world.clock.wait(pair.d.worker.shutdown(), 10)
  expect(pair.p.step().sent).toEqual(['p-r0'])
  const request = pair.d.admit('d-r0', 30, params)
  expect(pair.d.step().received).toEqual(['d-r0'])
  expect(request.errorCode).toBe('ERR_KV_CLOSED')
})

test('a worker that never registered shuts down, and reports nothing', async () => {
  const engine = new Engine(createWorld(), { engineId: 'd0' })
  expect(engine.worker.getTransferResults(new Set())).toEqual({
    sent: [],
    received: [],
    failed: [],
  })
  expect(engine.worker.getStats()).toBe(null)
  const step = { stepIndex: 0, scheduled: [], preemptedRequestIds: [] }
  const meta = engine.scheduler.buildConnectorMeta(step)
  expect(() => engine.worker.bindConnectorMetadata(meta)).toThrow(TypeError)
  await engine.worker.shutdown()
})

test('shutdown during registration: what was registered goes again', async () => {
  const world = createWorld()
  const engine = new Engine(world, { engineId: 'd0' })
  const registered = engine.worker.registerKvCaches(engine.caches).catch((error) => error.code)
  const end = engine.worker.shutdown()
  expect(await world.clock.wait(registered, 1_000)).toBe('ERR_KV_CLOSED')
  await world.clock.wait(end, 1_000)
  engine.caches.regions[0]!.memory.free()
})

test('registering twice is a mistake (20)', async () => {
  const pair = await createPair()
  expect(() => pair.d.worker.registerKvCaches(pair.d.caches)).toThrow(TypeError)
})

test('one region for each allocation, however many layers lie in it, from the first byte that is used (20)', async () => {
  const world = createWorld()
  const engine = new Engine(world, { engineId: 'd0' })
  const registered: unknown[] = []
  const { agent, caches, worker } = engine
  const registerRegion = agent.registerRegion.bind(agent)
  agent.registerRegion = (range) => {
    registered.push(range)
    return registerRegion(range)
  }
  const own = world.fabric.allocator.allocate({ sizeBytes: 32_768 })
  const [first, second] = caches.regions
  const regions = [
    first!,
    second!,
    { ...first!, name: 'layer-2', memory: own, offsetBytes: 4_096, blockStrideBytes: 128 },
  ]
  await world.clock.wait(worker.registerKvCaches({ ...caches, layerCount: 3, regions }), 1_000)
  const { memory } = first!
  expect(registered).toEqual([
    { memory, offsetBytes: 0, lengthBytes: 2 * 64 * 64 },
    // To the last byte of the last block, not to the end of its stride.
    { memory: own, offsetBytes: 4_096, lengthBytes: 63 * 128 + 64 },
  ])
  await world.clock.wait(worker.shutdown(), 1_000)
  for (const of of [memory, own]) of.free()
})

test('host staging without the engine’s memory is unsupported', async () => {
  const rank = { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 }
  const engine = new Engine(createWorld(), { engineId: 'd0' })
  const config = { options: {}, bufferDevice: 'host' }
  const worker = pull.createWorker({ config, sideChannel: engine.sideChannel } as never, rank)
  await expect(worker.registerKvCaches(engine.caches)).rejects.toMatchObject({
    code: 'ERR_KV_UNSUPPORTED',
  })
})

test('a prefill before any worker registered hands nothing over', () => {
  const engine = new Engine(createWorld(), { engineId: 'p0' })
  const request = engine.admit('p-r0', 4, { do_remote_decode: true })
  request.view = { ...request.view, computedTokenCount: 4 }
  expect(engine.finish('p-r0', 'length-capped')).toBe(null)
})

test('stats are null when nothing changed, and samples come once (25)', async () => {
  const pair = await createPair()
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  pair.d.step()
  expect(pair.d.worker.getStats()).toBe(null)
  expect(pair.d.stats.flatMap(({ loads }) => loads)).toHaveLength(1)
  expect(pair.d.counter('loadsDone')).toBe(1)
})

test('reports name each request once per direction, whatever is asked how often', async () => {
  const pair = await createPair()
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  for (let time = 0; time < 3; time++) {
    pair.d.step()
    pair.p.step()
  }
  const received = pair.d.outputs.flatMap((output) => output.received)
  const sent = pair.p.outputs.flatMap((output) => output.sent)
  expect([received, sent]).toEqual([[asRequestId('d-r0')], [asRequestId('p-r0')]])
})
