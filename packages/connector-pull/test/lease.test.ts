import {
  asEngineId,
  asRequestId,
  type KvTransferParams,
  type TransferAgent,
} from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { Engine } from './fixtures/engine.ts'
import {
  createPair,
  prompt,
  slowFabric,
  startLoad,
  until,
  untilAllFree,
  type Pair,
} from './fixtures/world.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]
const short = { leaseDurationMs: 2_000 }
const long = { leaseDurationMs: 60_000 }

/** Passes the calls on, and writes them down. */
function recordCalls(agent: TransferAgent, calls: boolean[]): (isExpected: boolean) => void {
  const expectNotifications = agent.expectNotifications.bind(agent)
  return (isExpected) => {
    calls.push(isExpected)
    expectNotifications(isExpected)
  }
}

/** Handshake and wire-up out of the way. */
async function warmUp(pair: Pair, id = 'warm-up'): Promise<void> {
  const request = await startLoad(pair, { id, tokenCount: 4 })
  await until(pair.world, () => request.outcome === 'loaded')
  await untilAllFree(pair)
}

/** A prefill whose handoff met a full hit elsewhere: its deadline is far, and its blocks are free. */
async function givenBack(pair: Pair): Promise<KvTransferParams> {
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const d1 = await Engine.start(pair.world, { engineId: 'd1' })
  d1.admit('d1-r0', 30, params, 32)
  d1.step()
  // P polls for d1, which never says that it is wired up, a while longer.
  await pair.world.clock.advance(31_000)
  await until(pair.world, () => pair.p.free.length === 64)
  return params
}

test('nobody comes: the lease ends, and P’s blocks are free again (11)', async () => {
  const pair = await createPair({ p: { options: short } })
  await pair.p.prefill('p-r0', prompt, 30)
  await pair.world.clock.advance(1_990)
  expect(pair.p.free.length).toBe(56)
  await pair.world.clock.advance(20)
  expect(pair.p.free.length).toBe(64)
  expect(pair.p.scheduler.hasPendingBlockFrees()).toBe(false)
  expect(pair.p.metrics.get('kv_leases_expired_total')).toBe(1)
})

test('D comes too late: nothing is read, and its request fails', async () => {
  const pair = await createPair({ p: { options: short } })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  await pair.world.clock.advance(2_010)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(request.failedBlocks).toEqual([...request.blocks])
  expect(pair.d.metrics.get('kv_loads_failed_total ERR_KV_LEASE_EXPIRED')).toBe(1)
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

test('the answer reached nobody: the lease is over at once, and who comes all the same is refused', async () => {
  const pair = await createPair({ p: { options: long } })
  await warmUp(pair)
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.p.step()
  pair.p.scheduler.handoffUndelivered?.(asRequestId('p-r0'))
  await until(pair.world, () => pair.p.free.length === 64, 10)
  expect(pair.p.counter('handoffsUndelivered')).toBe(1)
  expect(pair.p.counter('leasesExpired')).toBe(0)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
})

test('the answer was thought lost, and its load has asked: the lease stays', async () => {
  const pair = await createPair({ times: slowFabric })
  await warmUp(pair)
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  await pair.world.clock.advance(1)
  pair.p.scheduler.handoffUndelivered?.(asRequestId('p-r0'))
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  expect(pair.p.counter('handoffsUndelivered')).toBe(0)
  await untilAllFree(pair)
})

test('a handoff that reached nobody before its lease began: the worker half hears both in one step', async () => {
  const pair = await createPair({ p: { options: long } })
  await pair.p.prefill('p-r0', prompt, 30)
  pair.p.scheduler.handoffUndelivered?.(asRequestId('p-r0'))
  // Unknown ones are ignored.
  pair.p.scheduler.handoffUndelivered?.(asRequestId('nobody'))
  await until(pair.world, () => pair.p.free.length === 64, 10)
  await untilAllFree(pair)
})

test('D comes when the lease was given back: whatever it read is refused', async () => {
  const pair = await createPair({ p: { options: long } })
  const params = await givenBack(pair)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  // The READ itself went well: its word comes for a lease that is gone.
  await pair.world.clock.advance(10)
  expect(pair.p.metrics.get('kv_late_notifications_total')).toBe(1)
})

test('P polls for a READ without a lease until its word comes, and then no more', async () => {
  const pair = await createPair({ p: { options: long }, times: slowFabric })
  await warmUp(pair)
  const params = await givenBack(pair)
  const calls: boolean[] = []
  pair.p.agent.expectNotifications = recordCalls(pair.p.agent, calls)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  // Without polling this READ would never end: nothing of it is in P's hands but the network's.
  await until(pair.world, () => request.outcome === 'failed', 1_000)
  await pair.world.clock.advance(10)
  expect(calls).toEqual([true, false])
})

test('a READ that outlives its lease fails, though it ended done', async () => {
  const pair = await createPair({ p: { options: short }, d: { options: short } })
  await warmUp(pair)
  pair.world.fabric.faults.stall(pair.p.agent.name)
  const request = await startLoad(pair)
  // It's renewed until the READ is overdue, and no longer.
  await pair.world.clock.advance(3_900)
  expect(pair.p.free.length).toBe(56)
  await pair.world.clock.advance(300)
  // P has freed, and its blocks hold other bytes now.
  expect(pair.p.free.length).toBe(64)
  pair.world.fabric.faults.unstall(pair.p.agent.name)
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.outcome).toBe('failed')
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(false)
})

test('a slow READ within its lease is good, and the question starts the lease anew', async () => {
  const pair = await createPair({ p: { options: short }, d: { options: short } })
  await warmUp(pair)
  const params = await pair.p.prefill('p-r0', prompt, 30)
  await pair.world.clock.advance(1_500)
  pair.world.fabric.faults.stall(pair.p.agent.name)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  // The first lease would be over by now.
  await pair.world.clock.advance(1_000)
  pair.world.fabric.faults.unstall(pair.p.agent.name)
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.outcome).toBe('loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
})

test('the READ’s word overtakes the question: P still knows who read it', async () => {
  const pair = await createPair()
  await warmUp(pair)
  pair.world.channels.faults.partition(p0, d0)
  const request = await startLoad(pair)
  await until(pair.world, () => pair.p.free.length === 64, 100)
  expect(request.outcome).toBe('loading')
  pair.world.channels.faults.heal(p0, d0)
  await until(pair.world, () => request.outcome !== 'loading', 100)
  expect(request.outcome).toBe('loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  await untilAllFree(pair)
})

test('the answer is lost with the connection: D does not trust what it read', async () => {
  const pair = await createPair()
  await warmUp(pair)
  pair.world.channels.faults.partition(p0, d0)
  const request = await startLoad(pair)
  await pair.world.clock.advance(5)
  pair.world.channels.faults.breakAssociations(p0, d0)
  await until(pair.world, () => request.outcome !== 'loading', 100)
  expect(request.errorCode).toBe('ERR_KV_PEER_UNAVAILABLE')
})

test('the question stays without answer: D asks once more, then fails', async () => {
  const pair = await createPair()
  await warmUp(pair)
  const request = await startLoad(pair)
  pair.world.channels.faults.stop(p0)
  await pair.world.clock.advance(9_900)
  expect(request.outcome).toBe('loading')
  await until(pair.world, () => request.outcome !== 'loading', 200)
  expect(request.errorCode).toBe('ERR_KV_DEADLINE')
})

test('the READ’s word comes before P’s worker knows of the lease: it waits, and is not missed', async () => {
  const pair = await createPair()
  await warmUp(pair)
  // P polls for another lease, but takes no step: the lease's start stays in its scheduler half.
  await pair.p.prefill('p-other', prompt, 4)
  await pair.world.clock.advance(10)
  const held = pair.p.admit('p-r0', 30, { do_remote_decode: true })
  pair.p.step()
  await pair.p.fill(held, prompt)
  pair.p.isHalted = true
  held.view = { ...held.view, computedTokenCount: 30 }
  const params = pair.p.finish('p-r0', 'length-capped')!
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded', 100)
  await pair.world.clock.advance(10)
  expect(held.outcome).toBe('ended')
  pair.p.isHalted = false
  // One step: the lease begins, and is over.
  expect(pair.p.step().sent).toEqual(['p-r0'])
  expect(held.outcome).toBe('freed')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
})

test('a lost word costs the rest of the lease, nothing else', async () => {
  const pair = await createPair({ p: { options: short }, d: { options: short } })
  pair.world.fabric.faults.notifications.lossChance = 1
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  await pair.world.clock.advance(1_900)
  expect(pair.p.free.length).toBe(56)
  await pair.world.clock.advance(200)
  expect(pair.p.free.length).toBe(64)
})

test('a word that comes twice is counted, and frees nothing twice', async () => {
  const pair = await createPair()
  pair.world.fabric.faults.notifications.duplicateChance = 1
  const request = await startLoad(pair)
  // Something else keeps P polling, so that the second copy is heard.
  await pair.p.prefill('p-other', prompt, 4)
  await until(pair.world, () => request.outcome === 'loaded')
  await pair.world.clock.advance(10)
  expect(pair.p.outputs.flatMap(({ sent }) => sent)).toEqual(['p-r0'])
  expect(pair.p.metrics.get('kv_late_notifications_total')).toBe(1)
})

/** Two loads of one handoff: a router that tried again, or two that were given the same. */
async function admitTwice(pair: Pair, params: KvTransferParams) {
  const loads = ['d-a', 'd-b'].map((id) => pair.d.admit(id, 30, params))
  pair.d.step()
  await until(pair.world, () => loads.every(({ outcome }) => outcome !== 'loading'))
  return loads
}

test('a handoff used twice at once: one load has the lease, the other fails', async () => {
  for (let seed = 1; seed <= 8; seed++) {
    const pair = await createPair({ seed, times: slowFabric })
    await warmUp(pair)
    const params = await pair.p.prefill('p-r0', prompt, 30)
    const loads = await admitTwice(pair, params)
    expect(loads.map(({ outcome }) => outcome).sort()).toEqual(['failed', 'loaded'])
    const [good] = loads.filter(({ outcome }) => outcome === 'loaded')
    expect(await pair.d.isLoadedRight(good!, prompt)).toBe(true)
    await until(pair.world, () => pair.p.free.length === 64)
    expect(pair.p.outputs.flatMap(({ sent }) => sent)).toEqual(['p-warm-up', 'p-r0'])
  }
})

test('a handoff used again after its blocks were freed fails, whatever is there now', async () => {
  const pair = await createPair()
  const first = await startLoad(pair)
  await until(pair.world, () => first.outcome === 'loaded')
  await until(pair.world, () => pair.p.free.length === 64)
  const params = JSON.parse(JSON.stringify(pair.p.requests.get('p-r0')!.params))
  const again = pair.d.admit('d-again', 30, params)
  pair.d.step()
  await until(pair.world, () => again.outcome !== 'loading')
  expect(again.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
})
