import { ConnectorError, asEngineId, asIncarnation } from '@kvferry/connector-api'
import { protocolLimits } from '@kvferry/connector-api/protocol'
import { expect, test, vi } from 'vitest'
import { Engine } from './fixtures/engine.ts'
import { createPair, prompt, startLoad, until, untilAllFree } from './fixtures/world.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]

test('another life of the producer is the wrong epoch, found before anything is read', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.p.kill()
  const next = await Engine.start(pair.world, { engineId: 'p0', incarnation: 'p0-2' })
  const handoff = { ...params, remote_port: next.sideChannel.address.port }
  const request = pair.d.admit('d-r0', 30, handoff)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_WRONG_EPOCH')
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

test('the next life is another connection, at once', async () => {
  const pair = await createPair()
  const before = await startLoad(pair)
  await until(pair.world, () => before.outcome === 'loaded')
  pair.p.kill()
  const next = await Engine.start(pair.world, { engineId: 'p0', incarnation: 'p0-2' })
  const after = await startLoad({ ...pair, p: next }, { id: 'r1' })
  await until(pair.world, () => after.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(after, prompt)).toBe(true)
})

test.each([
  ['model', { model: 'other' }],
  ['dtype', { dtype: 'float8' }],
  ['layout', { layout: 'BLHNC' }],
  ['kvHeadCount', { kvHeadCount: 2 }],
])('a peer with another %s fails the load and names both values', async (field, caches) => {
  const pair = await createPair({ p: { caches } })
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_PEER_INCOMPATIBLE')
  const [local, remote] = [pair.d.caches, pair.p.caches].map(
    (of) => of[field as 'model' | 'kvHeadCount'],
  )
  expect(pair.d.logs.join()).toContain(`${field} is ${local} here and ${remote} on p0`)
  // P learns nothing it could be read by, and need not poll for this consumer.
  expect(pair.p.metrics.get('kv_messages_refused_total pull.handshake')).toBe(1)
  expect(pair.d.metrics.get('kv_handshakes_failed_total ERR_KV_PEER_INCOMPATIBLE')).toBe(1)
})

test('a peer with another connector fails the load and names the field', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.p.kill()
  // Its name and its life, and nobody who reads messages of pull.
  const other = pair.world.channels.open({ engineId: p0, incarnation: asIncarnation('p0-1') })
  const request = pair.d.admit('d-r0', 30, { ...params, remote_port: other.address.port })
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_PEER_INCOMPATIBLE')
  expect(pair.d.logs.join()).toContain('connector is pull here and another on p0')
})

test('a dead peer fails the loads that wait, and the next one tries again (22)', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.p.kill()
  for (const id of ['d-r0', 'd-r1']) {
    const request = pair.d.admit(id, 30, params)
    pair.d.step()
    await until(pair.world, () => request.outcome === 'failed')
    expect(request.errorCode).toBe('ERR_KV_PEER_UNAVAILABLE')
    expect(request.failedBlocks).toEqual([...request.blocks])
    await pair.world.clock.advance(protocolLimits.handshakeBackOffMinMs)
  }
  expect(pair.d.counter('handshakesFailed')).toBe(2)
})

test('a load right after a failed handshake meets the same error at once', async () => {
  const pair = await createPair({ d: { options: { handshakeTimeoutMs: 500 } } })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.world.channels.faults.stop(p0)
  const first = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => first.outcome === 'failed')
  const hasty = pair.d.admit('d-r1', 30, params)
  pair.d.step()
  expect(hasty.errorCode).toBe('ERR_KV_DEADLINE')
  expect(pair.d.counter('handshakesFailed')).toBe(1)
})

test('a handshake that went well ends the row of failures: the next pause is a short one', async () => {
  const pair = await createPair({ d: { options: { handshakeTimeoutMs: 100 } } })
  const { d, world } = pair
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const failOnce = async (id: string): Promise<void> => {
    const request = d.admit(id, 4, await pair.p.prefill(`p-${id}`, prompt, 4))
    world.channels.faults.stop(p0)
    d.step()
    await until(world, () => request.outcome === 'failed')
    world.channels.faults.resume(p0)
  }
  for (let count = 0; count < 4; count++) {
    await failOnce(`d-${count}`)
    await world.clock.advance(protocolLimits.handshakeBackOffMinMs * 2 ** count)
  }
  const good = d.admit('d-good', 30, params)
  d.step()
  await until(world, () => good.outcome === 'loaded')
  expect(d.counter('handshakesFailed')).toBe(4)
  world.channels.faults.breakAssociations(p0, d0)
  await world.clock.advance(10)
  await failOnce('d-again')
  d.step()
  expect(d.counter('handshakesFailed')).toBe(5)
  await world.clock.advance(protocolLimits.handshakeBackOffMinMs)
  const next = d.admit('d-next', 4, await pair.p.prefill('p-next', prompt, 4))
  d.step()
  await until(world, () => next.outcome !== 'loading', 50)
  expect(next.outcome).toBe('loaded')
})

test('handshakes beyond an address’s share wait for one that ends, and keep no other address waiting', async () => {
  const pair = await createPair({ d: { options: { handshakeTimeoutMs: 500 } } })
  const { handshakesInFlightMax, handshakesPerAddressMax } = protocolLimits
  let calls = 0
  const connect = pair.d.sideChannel.connect.bind(pair.d.sideChannel)
  pair.d.sideChannel.connect = (address, options) => {
    calls += 1
    return connect(address, options)
  }
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.world.channels.faults.stop(p0)
  // One life of p0 each, so that no two share a handshake.
  for (let at = 0; at < handshakesInFlightMax; at++) {
    pair.d.arrive(`d-${at}`, 30, { ...params, remote_incarnation: `p0-old-${at}` })
  }
  const last = pair.d.admit('d-last', 30, params)
  pair.d.step()
  expect(calls).toBe(handshakesPerAddressMax)
  const other = await Engine.start(pair.world, { engineId: 'p1' })
  const good = pair.d.admit('d-good', 30, await other.prefill('p1-r0', prompt, 30))
  pair.d.step()
  await until(pair.world, () => good.outcome === 'loaded')
  expect(calls).toBe(handshakesPerAddressMax + 1)
  pair.world.channels.faults.resume(p0)
  await until(pair.world, () => last.outcome === 'loaded')
  expect(calls).toBe(handshakesInFlightMax + 2)
})

test('a silent peer fails them at the handshake’s deadline', async () => {
  const pair = await createPair({ d: { options: { handshakeTimeoutMs: 700 } } })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.world.channels.faults.stop(p0)
  const startedAt = pair.world.clock.now()
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_DEADLINE')
  expect(pair.world.clock.now() - startedAt).toBeGreaterThanOrEqual(700)
  expect(pair.world.clock.now() - startedAt).toBeLessThan(720)
  // It wakes up, with the old question still in the pipe: the next load works.
  pair.world.channels.faults.resume(p0)
  await pair.world.clock.advance(protocolLimits.handshakeBackOffMinMs)
  const next = pair.d.admit('d-r1', 30, params)
  pair.d.step()
  await until(pair.world, () => next.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(next, prompt)).toBe(true)
})

test('one silent peer does not hold up another (14, 16)', async () => {
  const pair = await createPair()
  const other = await Engine.start(pair.world, { engineId: 'p1' })
  const slow = await pair.p.prefill('p-slow', prompt, 9)
  const quick = await other.prefill('p-quick', prompt, 9)
  pair.world.channels.faults.stop(p0)
  const waiting = pair.d.admit('d-slow', 9, slow)
  const request = pair.d.admit('d-quick', 9, quick)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded', 100)
  expect(waiting.outcome).toBe('loading')
  await until(pair.world, () => waiting.outcome === 'failed')
})

test('the association ends while the agent adds the peer: what it added goes again', async () => {
  const pair = await createPair()
  const { agent } = pair.d
  const addPeer = agent.addPeer.bind(agent)
  const removed: unknown[] = []
  const removePeer = agent.removePeer.bind(agent)
  agent.removePeer = (peer) => {
    removed.push(peer)
    return removePeer(peer)
  }
  agent.addPeer = async (options) => {
    pair.world.channels.faults.breakAssociations(p0, d0)
    await new Promise<void>((resolve) => pair.world.clock.after(5, resolve))
    return addPeer(options)
  }
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_PEER_UNAVAILABLE')
  await pair.world.clock.advance(20)
  expect(removed).toHaveLength(1)
  await pair.world.clock.advance(protocolLimits.handshakeBackOffMinMs)
  agent.addPeer = addPeer
  const next = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => next.outcome === 'loaded')
})

test('a lost connection is made anew for the next load', async () => {
  const pair = await createPair()
  const first = await startLoad(pair)
  await until(pair.world, () => first.outcome === 'loaded')
  pair.world.channels.faults.breakAssociations(p0, d0)
  await pair.world.clock.advance(10)
  const next = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => next.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(next, prompt)).toBe(true)
  expect(pair.d.counter('handshakesDone')).toBe(2)
  await untilAllFree(pair)
})

test('a load that comes while the old peer is being removed waits for it, then connects', async () => {
  const pair = await createPair()
  const first = await startLoad(pair)
  await until(pair.world, () => first.outcome === 'loaded')
  const { agent } = pair.d
  const removePeer = agent.removePeer.bind(agent)
  agent.removePeer = async (peer) => {
    await new Promise<void>((resolve) => pair.world.clock.after(20, resolve))
    return removePeer(peer)
  }
  pair.world.channels.faults.breakAssociations(p0, d0)
  await pair.world.clock.advance(5)
  const next = await startLoad(pair, { id: 'r1' })
  await pair.world.clock.advance(5)
  expect(next.outcome).toBe('loading')
  expect(pair.d.counter('handshakesDone')).toBe(1)
  await until(pair.world, () => next.outcome === 'loaded', 100)
  expect(await pair.d.isLoadedRight(next, prompt)).toBe(true)
})

test('a table that the agent refuses fails the load, and no peer is left behind', async () => {
  const pair = await createPair()
  const { agent } = pair.d
  const importBlockTable = agent.importBlockTable.bind(agent)
  const removePeer = vi.spyOn(agent, 'removePeer')
  const reason = 'wraps'
  agent.importBlockTable = () => {
    throw new ConnectorError('ERR_KV_MESSAGE_INVALID', reason, { where: 'block table', reason })
  }
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_MESSAGE_INVALID')
  expect(removePeer).toHaveBeenCalledTimes(1)
  agent.importBlockTable = importBlockTable
  await pair.world.clock.advance(protocolLimits.handshakeBackOffMinMs)
  const next = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => next.outcome === 'loaded')
})
