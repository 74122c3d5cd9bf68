import {
  ConnectorError,
  asEngineId,
  type AnyConnectorError,
  type TransferHandle,
} from '@kvferry/connector-api'
import { expect, test, vi } from 'vitest'
import { Engine } from './fixtures/engine.ts'
import {
  createPair,
  createWorld,
  prompt,
  slowFabric,
  startLoad,
  until,
  untilAllFree,
} from './fixtures/world.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]

test('a READ that fails fails its load, with its blocks, and P frees at once (21, 22)', async () => {
  const pair = await createPair()
  pair.world.fabric.faults.failNextPosts(pair.d.agent.name, 1)
  const request = await startLoad(pair, { hitTokenCount: 8 })
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_TRANSFER_FAILED')
  expect(request.failedBlocks).toEqual([...request.blocks.slice(2)])
  expect(pair.d.metrics.get('kv_transfers_failed_total ERR_KV_TRANSFER_FAILED')).toBe(1)
  await until(pair.world, () => pair.p.free.length === 64, 100)
  await untilAllFree(pair)
})

test('one failing READ does not touch the others of its step', async () => {
  const pair = await createPair()
  const params = [
    await pair.p.prefill('p-a', prompt, 9),
    await pair.p.prefill('p-b', prompt, 9),
    await pair.p.prefill('p-c', prompt, 9),
  ]
  // The middle one names a block that P does not have, and so P did not sign it.
  const hostile = { ...params[1]!, remote_block_ids: [[1, 2, 1_000]] }
  const loads = [params[0]!, hostile, params[2]!].map((of, at) => pair.d.admit(`d-${at}`, 9, of))
  pair.d.step()
  await until(pair.world, () => loads.every(({ outcome }) => outcome !== 'loading'))
  expect(loads.map(({ errorCode }) => errorCode)).toEqual([null, 'ERR_KV_UNAUTHORISED', null])
})

test('one post that the agent refuses does not take the others with it (22)', async () => {
  const pair = await createPair()
  const { agent } = pair.d
  const post = agent.post.bind(agent)
  agent.post = (posts, options) => {
    if (posts.some(({ local }) => 'blockIds' in local && local.blockIds.length === 1)) {
      throw new ConnectorError('ERR_KV_LIMIT', 'queue full', { limit: 'x', value: 1, max: 0 })
    }
    return post(posts, options)
  }
  const [a, b] = [await pair.p.prefill('p-a', prompt, 9), await pair.p.prefill('p-b', prompt, 4)]
  const [good, bad] = [pair.d.admit('d-a', 9, a), pair.d.admit('d-b', 4, b)]
  pair.d.step()
  await until(pair.world, () => good.outcome !== 'loading' && bad.outcome !== 'loading')
  expect([good.errorCode, bad.errorCode]).toEqual([null, 'ERR_KV_LIMIT'])
  await untilAllFree(pair)
})

test('P dies in the middle of a READ: the load fails once the READ has ended, not before', async () => {
  for (let seed = 1; seed <= 5; seed++) {
    const pair = await createPair({ seed, times: slowFabric })
    const request = await startLoad(pair)
    await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
    await pair.world.clock.advance(2)
    pair.p.kill()
    let openAtReport = -1
    await until(pair.world, () => {
      openAtReport = pair.d.agent.counters().transfersOpen
      return request.outcome !== 'loading'
    })
    expect(request.outcome).toBe('failed')
    expect(openAtReport).toBe(0)
    expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual(['d-r0'])
    // The next life of P serves the next request.
    const next = await Engine.start(pair.world, { engineId: 'p0', incarnation: 'p0-2' })
    const after = await startLoad({ ...pair, p: next }, { id: 'r1' })
    await until(pair.world, () => after.outcome === 'loaded')
    expect(await pair.d.isLoadedRight(after, prompt)).toBe(true)
  }
})

test('the connection ends in the middle of a READ: its own status decides', async () => {
  const pair = await createPair({ times: slowFabric })
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  // Long enough for the lease's grant.
  await pair.world.clock.advance(1)
  pair.world.channels.faults.breakAssociations(p0, d0)
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.outcome).toBe('loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  await untilAllFree(pair)
})

test('while READs of a lost peer are open, new loads from it fail fast', async () => {
  const pair = await createPair({ times: slowFabric })
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  await pair.world.clock.advance(1)
  pair.world.channels.faults.breakAssociations(p0, d0)
  await pair.world.clock.advance(1)
  const hasty = await startLoad(pair, { id: 'hasty', tokenCount: 4 })
  await until(pair.world, () => hasty.outcome !== 'loading', 2)
  expect(hasty.errorCode).toBe('ERR_KV_PEER_UNAVAILABLE')
  expect(request.outcome).toBe('loading')
  await until(pair.world, () => request.outcome === 'loaded')
  const next = await startLoad(pair, { id: 'next' })
  await until(pair.world, () => next.outcome === 'loaded')
})

test('D dies in the middle of a READ: P frees when the lease ends', async () => {
  const options = { leaseDurationMs: 2_000 }
  const pair = await createPair({ times: slowFabric, p: { options }, d: { options } })
  await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  await pair.world.clock.advance(2)
  pair.d.kill()
  await pair.world.clock.advance(1_900)
  expect(pair.p.free.length).toBe(56)
  await until(pair.world, () => pair.p.free.length === 64, 200)
  expect(pair.p.scheduler.hasPendingBlockFrees()).toBe(false)
  expect(pair.p.metrics.get('kv_leases_expired_total')).toBe(1)
})

test('an overdue READ keeps its request waiting and its blocks in quarantine until it ends', async () => {
  const options = { transferDeadlineMs: 1_000 }
  const pair = await createPair({ d: { options } })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  pair.world.fabric.faults.stall(pair.p.agent.name)
  const request = await startLoad(pair)
  await pair.world.clock.advance(1_100)
  expect(pair.d.metrics.get('kv_blocks_quarantined')).toBe(8)
  expect(pair.d.metrics.get('kv_transfers_overdue_total read')).toBe(1)
  await pair.world.clock.advance(10_000)
  expect(request.outcome).toBe('loading')
  pair.world.fabric.faults.unstall(pair.p.agent.name)
  await until(pair.world, () => request.outcome !== 'loading')
  // The lease of 30 s is still P's promise.
  expect(request.outcome).toBe('loaded')
  expect(pair.d.metrics.get('kv_blocks_quarantined')).toBe(0)
  expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual(['d-warm-up', 'd-r0'])
})

test('too many blocks in quarantine: further loads are refused', async () => {
  const pair = await createPair({ d: { options: { transferDeadlineMs: 1_000 } } })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  pair.world.fabric.faults.stall(pair.p.agent.name)
  await startLoad(pair, { tokenCount: 68 })
  await pair.world.clock.advance(1_100)
  const refused = await startLoad(pair, { id: 'r1', tokenCount: 4 })
  await until(pair.world, () => refused.outcome !== 'loading', 100)
  expect(refused.errorCode).toBe('ERR_KV_QUARANTINE_FULL')
  expect(refused.failedBlocks).toEqual([...refused.blocks])
  // P is told that nobody will read them.
  await until(pair.world, () => pair.p.counter('leasesReleased') === 1, 100)
})

test('the agent breaks: open READs are in doubt for good, new loads fail', async () => {
  const pair = await createPair({ times: slowFabric })
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  const details = { operation: 'poll', status: 'broken' }
  const error = new ConnectorError('ERR_NIXL', 'gone', details) as AnyConnectorError
  pair.world.fabric.faults.break(pair.d.agent.name, error)
  await pair.world.clock.advance(1)
  expect(pair.d.metrics.get('kv_blocks_quarantined')).toBe(8)
  const next = await startLoad(pair, { id: 'r1', tokenCount: 4 })
  await until(pair.world, () => next.outcome !== 'loading', 100)
  expect(next.errorCode).toBe('ERR_NIXL')
  expect(request.outcome).toBe('loading')
})

test('a broken agent that still reports an overdue READ is not believed twice', async () => {
  const world = createWorld(1, slowFabric)
  const p = await Engine.start(world, { engineId: 'p0' })
  const d = new Engine(world, { engineId: 'd0' })
  const setListener = vi.spyOn(d.agent, 'setListener')
  const post = vi.spyOn(d.agent, 'post')
  await world.clock.wait(d.worker.registerKvCaches(d.caches), 100)
  await startLoad({ world, p, d })
  await until(world, () => post.mock.results.length > 0)
  const listener = setListener.mock.calls[0]![0]
  const [transfer] = post.mock.results[0]!.value as TransferHandle[]
  const details = { what: 'READ', deadlineMs: 1 }
  const error = new ConnectorError('ERR_KV_DEADLINE', 'late', details) as AnyConnectorError
  listener.onBroken(error)
  listener.onCompletions([{ transfer: transfer!, status: 'overdue', error }])
  d.step()
  expect(d.counter('loadsOverdue')).toBe(1)
})
