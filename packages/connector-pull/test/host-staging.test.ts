/**
 * `bufferDevice: host`: only a copy in host memory is registered. P copies a finished prompt's blocks there
 * before anybody may read them, D copies what it read to their place before it reports.
 */
import { asEngineId } from '@kvferry/connector-api'
import { describe, expect, test, vi } from 'vitest'
import { Engine } from './fixtures/engine.ts'
import {
  createPair,
  createWorld,
  prompt,
  startLoad,
  until,
  untilAllFree,
} from './fixtures/world.ts'

const host = { config: { bufferDevice: 'host' } } as const
const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]
const sides: Record<string, Parameters<typeof createPair>[0]> = {
  'both sides': { p: host, d: host },
  'the producer': { p: host },
  'the consumer': { d: host },
}

describe.each(Object.entries(sides))('on %s', (_, options = {}) => {
  test.each([1, 4, 30, 32])('a prompt of %i tokens arrives byte for byte', async (tokenCount) => {
    const pair = await createPair(options)
    const request = await startLoad(pair, { tokenCount })
    await until(pair.world, () => request.outcome !== 'loading')
    expect(request.errorCode).toBe(null)
    expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
    await untilAllFree(pair)
  })

  test('a partial hit: what was hit stays as it is, the rest is loaded', async () => {
    const pair = await createPair(options)
    const request = await startLoad(pair, { tokenCount: 30, hitTokenCount: 12 })
    await until(pair.world, () => request.outcome === 'loaded')
    expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  })

  test('another block size', async () => {
    const { p, d } = options
    const caches = { layout: 'LBNHC' }
    const pair = await createPair({
      p: { ...p, caches, blockTokens: 4 },
      d: { ...d, caches, blockTokens: 8 },
    })
    const request = await startLoad(pair)
    await until(pair.world, () => request.outcome === 'loaded')
    expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  })

  test('many loads, one after the other and at once, through blocks that are used again', async () => {
    const pair = await createPair(options)
    for (let round = 0; round < 6; round++) {
      const loads = [
        await startLoad(pair, { id: `a${round}` }),
        await startLoad(pair, { id: `b${round}` }),
      ]
      await until(pair.world, () => loads.every(({ outcome }) => outcome === 'loaded'))
      for (const load of loads) expect(await pair.d.isLoadedRight(load, prompt)).toBe(true)
      await untilAllFree(pair)
    }
  })
})

/** Holds every copy back until the test lets it go. */
function holdCopies(world: Awaited<ReturnType<typeof createPair>>['world']): () => void {
  const { kernels } = world.fabric
  const relayout = kernels.relayout.bind(kernels)
  const held: (() => void)[] = []
  vi.spyOn(kernels, 'relayout').mockImplementation(async (...copy) => {
    await new Promise<void>((resolve) => held.push(resolve))
    return relayout(...copy)
  })
  return () => held.splice(0).forEach((go) => go())
}

test('D asks before P’s copy is there: nothing is read until it is', async () => {
  const pair = await createPair({ p: host })
  const letGo = holdCopies(pair.world)
  const request = await startLoad(pair)
  await pair.world.clock.advance(500)
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
  expect(request.outcome).toBe('loading')
  letGo()
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
})

test('the copy does not come: the load fails within the time of an answer', async () => {
  const pair = await createPair({ p: host })
  holdCopies(pair.world)
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome !== 'loading', 6_000)
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

test('the copy fails: the load fails, and nothing was read', async () => {
  const pair = await createPair({ p: host })
  vi.spyOn(pair.world.fabric.kernels, 'relayout').mockRejectedValue(new RangeError('broken'))
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome !== 'loading', 6_000)
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

test('D reports when its copy has arrived at its place, not before', async () => {
  const pair = await createPair({ d: host })
  const letGo = holdCopies(pair.world)
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersDone === 1)
  await pair.world.clock.advance(100)
  expect(request.outcome).toBe('loading')
  letGo()
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
})

test('an abort while D waits for P’s copy: reported at once, and P frees', async () => {
  const pair = await createPair({ p: host })
  const letGo = holdCopies(pair.world)
  const request = await startLoad(pair)
  await pair.world.clock.advance(100)
  pair.d.finish('d-r0', 'aborted')
  await until(pair.world, () => request.outcome === 'freed', 10)
  letGo()
  await untilAllFree(pair)
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

test('the connection is lost while D waits for P’s copy: the load fails', async () => {
  const pair = await createPair({ p: host })
  holdCopies(pair.world)
  const request = await startLoad(pair)
  await pair.world.clock.advance(100)
  pair.world.channels.faults.breakAssociations(p0, d0)
  await until(pair.world, () => request.outcome !== 'loading', 100)
  expect(request.errorCode).toBe('ERR_KV_PEER_UNAVAILABLE')
})

test('shutdown ends waiting loads, and frees the copy', async () => {
  const pair = await createPair({ p: host, d: host })
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  for (const engine of [pair.d, pair.p]) {
    await pair.world.clock.wait(engine.worker.shutdown(), 10_000)
    expect(engine.logs.filter((line) => line.includes('at shutdown'))).toEqual([])
  }
})

test('a registration that fails leaves no copy behind', async () => {
  const world = createWorld()
  const engine = new Engine(world, { engineId: 'd0', ...host })
  const free = vi.fn()
  const { allocator } = world.fabric
  const allocate = allocator.allocate.bind(allocator)
  vi.spyOn(allocator, 'allocate').mockImplementation((options) => {
    const memory = allocate(options)
    const release = memory.free.bind(memory)
    memory.free = () => {
      free()
      release()
    }
    return memory
  })
  engine.agent.registerRegion = () => Promise.reject(new RangeError('broken'))
  const registered = engine.worker.registerKvCaches(engine.caches).catch((error: unknown) => error)
  expect(await world.clock.wait(registered, 100)).toBeInstanceOf(RangeError)
  expect(free).toHaveBeenCalledTimes(1)
})
