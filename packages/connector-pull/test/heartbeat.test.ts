/** Leases of requests that wait on D: items 26–30 of vLLM's list, and what ours adds. */
import { asEngineId, asRequestId, instantPlus, type Clock } from '@kvferry/connector-api'
import {
  firstHeartbeatDelayMs,
  heartbeatIntervalMs,
  heartbeatPortions,
  protocolLimits,
} from '@kvferry/connector-api/protocol'
import { Engine } from '@kvferry/connector-api/testing'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeHeartbeat } from '../src/messages.ts'
import {
  createPair,
  createWorld,
  prompt,
  until,
  untilAllFree,
  type Pair,
} from './fixtures/world.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]
const short = { leaseDurationMs: 3_000 }
const shortPair = (): Promise<Pair> => createPair({ p: { options: short }, d: { options: short } })

/** Writes down the ids of every heartbeat that P hears. */
function listen(engine: Engine): string[][] {
  const heard: string[][] = []
  const { handlers } = engine.sideChannel as unknown as {
    handlers: Map<string, (body: Uint8Array, from: unknown) => Uint8Array>
  }
  const handler = handlers.get('pull.heartbeat')!
  handlers.set('pull.heartbeat', (body, from) => {
    heard.push([...decodeHeartbeat(body, 'd0')])
    return handler(body, from)
  })
  return heard
}

/** A request that D has accepted and can't admit: its handoff is known, its blocks are not. */
async function queue(pair: Pair, id = 'r0', p = pair.p) {
  const params = await p.prefill(`p-${id}`, prompt, 30)
  const request = pair.d.arrive(`d-${id}`, 30, params)
  pair.d.step()
  return request
}

test('26: a request that waits on D for many leases loses nothing', async () => {
  const pair = await shortPair()
  const request = await queue(pair)
  await pair.world.clock.advance(9 * short.leaseDurationMs)
  expect(pair.p.free.length).toBe(56)
  pair.d.allocate(request)
  request.outcome = 'loading'
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  await untilAllFree(pair)
})

test('26: heartbeats are grouped by producer, and only for what came with a handoff', async () => {
  const pair = await shortPair()
  const p1 = await Engine.start(pair.world, { engineId: 'p1', options: short })
  const [atP0, atP1] = [listen(pair.p), listen(p1)]
  await queue(pair, 'a')
  await queue(pair, 'b')
  await queue(pair, 'c', p1)
  pair.d.arrive('d-plain', 30, null)
  pair.d.step()
  await pair.world.clock.advance(600)
  expect(atP0).toEqual([['p-a', 'p-b']])
  expect(atP1).toEqual([['p-c']])
})

test('26: one that shares its producer with others is kept after they have gone', async () => {
  const pair = await shortPair()
  const heard = listen(pair.p)
  await queue(pair, 'a')
  await queue(pair, 'b')
  await pair.world.clock.advance(600)
  pair.d.finish('d-a', 'aborted')
  await pair.world.clock.advance(1_000)
  expect(heard).toEqual([['p-a', 'p-b'], ['p-b'], ['p-b']])
  expect(pair.p.counter('leasesReleased')).toBe(1)
})

test('27: none after the load’s end, and no timer is left', async () => {
  const pair = await shortPair()
  const heard = listen(pair.p)
  const request = await queue(pair)
  pair.d.allocate(request)
  request.outcome = 'loading'
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded')
  await pair.world.clock.advance(2_000)
  expect(heard).toEqual([])
})

test('27: none after the request ended unadmitted, and P frees at once', async () => {
  const pair = await shortPair()
  const heard = listen(pair.p)
  await queue(pair)
  pair.d.finish('d-r0', 'failed')
  await until(pair.world, () => pair.p.free.length === 64, 20)
  await pair.world.clock.advance(2_000)
  expect(heard).toEqual([])
  expect(pair.p.metrics.get('kv_leases_expired_total')).toBe(undefined)
})

test('28: one heartbeat an interval and producer, however many requests and steps', async () => {
  const pair = await shortPair()
  const heard = listen(pair.p)
  for (const id of ['a', 'b', 'c', 'd']) await queue(pair, id)
  for (let step = 0; step < 100; step++) {
    pair.d.step()
    await pair.world.clock.advance(20)
  }
  // 2 s, a sixth of 3 s each.
  expect(heard.length).toBe(3)
  for (const ids of heard) expect(ids).toEqual(['p-a', 'p-b', 'p-c', 'p-d'])
})

test('an engine that takes no step renews all the same', async () => {
  const pair = await shortPair()
  const request = await queue(pair)
  pair.d.isHalted = true
  await pair.world.clock.advance(5 * short.leaseDurationMs)
  pair.d.isHalted = false
  pair.d.allocate(request)
  request.outcome = 'loading'
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded')
})

test('29: an id that P does not hold is no matter to the others, and its load is refused unread', async () => {
  const pair = await shortPair()
  const gone = await queue(pair, 'gone')
  const kept = await queue(pair, 'kept')
  // Another engine was given the same handoff, and has no use for it.
  const d1 = await Engine.start(pair.world, { engineId: 'd1' })
  d1.admit('d1-gone', 30, pair.p.requests.get('p-gone')!.params, 32)
  d1.step()
  await pair.world.clock.advance(2 * short.leaseDurationMs)
  for (const request of [gone, kept]) {
    pair.d.allocate(request)
    request.outcome = 'loading'
  }
  pair.d.step()
  await until(pair.world, () => gone.outcome !== 'loading' && kept.outcome !== 'loading')
  expect([gone.errorCode, kept.errorCode]).toEqual(['ERR_KV_LEASE_EXPIRED', null])
  expect(pair.d.agent.counters().transfersPosted).toBe(1)
})

test('30: leases end in the order of their deadlines, not of their beginnings', async () => {
  const pair = await shortPair()
  // The oldest is renewed, the younger ones are nobody's.
  await queue(pair, 'renewed')
  await pair.p.prefill('p-one', prompt, 4)
  await pair.world.clock.advance(1_000)
  await pair.p.prefill('p-two', prompt, 4)
  const sent = (): string[] => pair.p.outputs.flatMap((output) => output.sent)
  await pair.world.clock.advance(2_050)
  expect(sent()).toEqual(['p-one'])
  await pair.world.clock.advance(1_000)
  expect(sent()).toEqual(['p-one', 'p-two'])
  await pair.world.clock.advance(10_000)
  expect(sent()).toEqual(['p-one', 'p-two'])
  expect(pair.p.free.length).toBe(56)
})

test('30: clocks with other origins: the time left is what counts', async () => {
  const world = createWorld()
  const clock: Clock = {
    now: () => instantPlus(world.clock.now(), 1e9),
    after: (delayMs, callback) => world.clock.after(delayMs, callback),
  }
  const p = await Engine.start(world, { engineId: 'p0', options: short })
  const d = await Engine.start(world, { engineId: 'd0', options: short, clock })
  const pair = { world, p, d }
  const request = await queue(pair)
  await pair.world.clock.advance(4 * short.leaseDurationMs)
  pair.d.allocate(request)
  request.outcome = 'loading'
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded')
})

test('D dies while requests wait on it: P frees when the last renewal ends', async () => {
  const pair = await shortPair()
  await queue(pair)
  await pair.world.clock.advance(3 * short.leaseDurationMs)
  pair.d.kill()
  await pair.world.clock.advance(short.leaseDurationMs - 600)
  expect(pair.p.free.length).toBe(56)
  await until(pair.world, () => pair.p.free.length === 64, 700)
})

test('P dies while requests wait on D: their loads fail, of the wrong epoch or unreachable', async () => {
  const pair = await shortPair()
  const { port } = pair.p.sideChannel.address
  const request = await queue(pair)
  await pair.world.clock.advance(1_000)
  pair.p.kill()
  await Engine.start(pair.world, { engineId: 'p0', incarnation: 'p0-2', port })
  await pair.world.clock.advance(1_000)
  pair.d.allocate(request)
  request.outcome = 'loading'
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_WRONG_EPOCH')
})

test('the new life of a consumer keeps and ends nothing of its predecessor’s', async () => {
  const pair = await shortPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  // Read by a life that dies in the middle of it: the lease is its own, to the end.
  pair.world.fabric.faults.stall(pair.p.agent.name)
  pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await pair.world.clock.advance(100)
  pair.d.kill()
  const next = await Engine.start(pair.world, {
    engineId: 'd0',
    incarnation: 'd0-2',
    options: short,
  })
  next.arrive('d-again', 30, params)
  next.step()
  await pair.world.clock.advance(100)
  next.finish('d-again', 'aborted')
  await pair.world.clock.advance(2_500)
  expect(pair.p.free.length).toBe(56)
  await until(pair.world, () => pair.p.free.length === 64, 500)
  expect(pair.p.metrics.get('kv_leases_expired_total')).toBe(1)
})

test('a partition shorter than a lease costs nothing; a longer one is known before anything is read', async () => {
  const pair = await shortPair()
  const request = await queue(pair)
  await pair.world.clock.advance(600)
  pair.world.channels.faults.partition(p0, d0)
  await pair.world.clock.advance(2_000)
  pair.world.channels.faults.heal(p0, d0)
  await pair.world.clock.advance(2_000)
  expect(pair.p.free.length).toBe(56)
  pair.world.channels.faults.partition(p0, d0)
  await pair.world.clock.advance(4_000)
  expect(pair.p.free.length).toBe(64)
  pair.world.channels.faults.heal(p0, d0)
  await pair.world.clock.advance(1_000)
  pair.d.allocate(request)
  request.outcome = 'loading'
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

test('a producer that names no lease at all is not asked without pause', () => {
  expect(heartbeatIntervalMs(30_000)).toBe(5_000)
  expect(heartbeatIntervalMs(0)).toBe(protocolLimits.heartbeatIntervalMsMin)
})

test('a lease that is nearly over when its handoff arrives is renewed at once', () => {
  expect(firstHeartbeatDelayMs(30_000, 5_000)).toBe(5_000)
  expect(firstHeartbeatDelayMs(9_999, 5_000)).toBe(0)
  expect(firstHeartbeatDelayMs(-1, 5_000)).toBe(0)
})

test('NIXL #1142, NIXL #1182, UCCL #1015 portions: every id once, in order, and none too large for its message', () => {
  // Upstream: a list that outgrew what a notification may have was dropped, and with it all its renewals.
  const ids = fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 80 }), {
    maxLength: 2_000,
  })
  fc.assert(
    fc.property(ids, (list) => {
      const portions = heartbeatPortions(list.map(asRequestId))
      expect(portions.flat()).toEqual(list)
      for (const portion of portions) {
        expect(portion.length).toBeLessThanOrEqual(protocolLimits.heartbeatIdCountMax)
        const size = portion.reduce((sum, id) => sum + 2 + Buffer.byteLength(id), 0)
        expect(size).toBeLessThanOrEqual(protocolLimits.heartbeatSizeBytesMax)
      }
    }),
    { numRuns: 30 },
  )
})
