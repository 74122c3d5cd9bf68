/**
 * Accidents that ended or hung vLLM's engines. Each test has upstream's number and, in its first line, what
 * happens there.
 */
import {
  ConnectorError,
  WIRE_VERSION,
  asEngineId,
  type KvTransferParams,
} from '@kvferry/connector-api'
import { protocolLimits } from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'
import { encodeReadDone } from '../../src/notification.ts'
import {
  createPair,
  prompt,
  slowFabric,
  startLoad,
  until,
  untilAllFree,
} from '../fixtures/world.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]
const copyOf = (params: KvTransferParams | null): KvTransferParams =>
  JSON.parse(JSON.stringify(params)) as KvTransferParams

test('#18631 a preempted request asks for its remote KV again, after P has freed it', async () => {
  // Upstream: D's scheduler loads a second time from freed blocks and crashes.
  const pair = await createPair()
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded' && pair.p.free.length === 64)
  expect(pair.d.matched(request)).toBe(0)
  pair.d.allocate(request)
  pair.d.step(['d-r0'])
  await pair.world.clock.advance(100)
  expect(pair.d.agent.counters().transfersPosted).toBe(1)
})

test('#20440 a prompt that is prefilled in chunks', async () => {
  // Upstream: early versions lost blocks of prompts longer than one batch.
  const pair = await createPair()
  const held = pair.p.admit('p-r0', 30, { do_remote_decode: true })
  for (const computedTokenCount of [8, 16, 24, 30]) {
    pair.p.step()
    held.view = { ...held.view, computedTokenCount }
    pair.p.scheduler.updateStateAfterAlloc(held.view, [held.blocks], 0)
  }
  await pair.p.fill(held, prompt)
  const request = pair.d.admit('d-r0', 30, copyOf(pair.p.finish('p-r0', 'length-capped')))
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  await untilAllFree(pair)
})

test('#46240 every message twice: each id is reported once', async () => {
  // Upstream: an id reported twice, or after its request is gone, trips an assertion that ends the engine.
  const pair = await createPair()
  pair.world.fabric.faults.notifications.duplicateChance = 1
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  await untilAllFree(pair)
  await pair.world.clock.advance(1_000)
  expect(pair.p.outputs.flatMap(({ sent }) => sent)).toEqual(['p-r0'])
  expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual(['d-r0'])
})

test('#25067, #25562, llm-d #187 news of a request that was just dropped', async () => {
  // Upstream: KeyError in the worker on the abort race.
  const pair = await createPair()
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const message = encodeReadDone({
    token: new Uint8Array(16),
    loadId: 1,
    requestId: 'p-gone' as never,
  })
  pair.world.fabric.forge(pair.p.agent.name, { from: pair.d.agent.name, message })
  const { association } = await connect(pair)
  await pair.world.clock.wait(association.request('pull.release', releaseOf('p-gone')), 100)
  await pair.world.clock.advance(10)
  const next = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => next.outcome === 'loaded')
})

async function connect({ d, p, world }: Awaited<ReturnType<typeof createPair>>) {
  const { host, port } = p.sideChannel.address
  return {
    association: await world.clock.wait(d.sideChannel.connect({ host, port, engineId: p0 }), 100),
  }
}

const releaseOf = (id: string): Uint8Array => {
  const bytes = new TextEncoder().encode(id)
  return Uint8Array.of(WIRE_VERSION, 0, 0, bytes.length, 0, ...bytes, 0, 0, 0, 0)
}

test('#41863 the handshake fails while requests wait for it', async () => {
  // Upstream: the waiting requests read an engine that isn't there: KeyError.
  const pair = await createPair({ d: { options: { handshakeTimeoutMs: 500 } } })
  const params = [await pair.p.prefill('p-a', prompt, 9), await pair.p.prefill('p-b', prompt, 9)]
  pair.world.channels.faults.stop(p0)
  const loads = params.map((of, at) => pair.d.admit(`d-${at}`, 9, of))
  pair.d.step()
  await until(pair.world, () => loads.every(({ outcome }) => outcome === 'failed'))
  expect(loads.map(({ errorCode }) => errorCode)).toEqual(['ERR_KV_DEADLINE', 'ERR_KV_DEADLINE'])
})

test('llm-d #191 one transient error of the transfer library', async () => {
  // Upstream: the exception leaves get_finished and ends the engine.
  const pair = await createPair()
  const { agent } = pair.d
  const post = agent.post.bind(agent)
  agent.post = () => {
    throw new ConnectorError('ERR_NIXL', 'transient', { operation: 'post', status: 'BACKEND' })
  }
  const first = await startLoad(pair)
  await until(pair.world, () => first.outcome === 'failed')
  agent.post = post
  const next = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => next.outcome === 'loaded')
})

test('#23587, #23086 P and D that don’t fit, and P and D with caches of other sizes', async () => {
  // Upstream: the first request crashes D; different block counts trip an assertion in the handshake.
  const wrong = await createPair({ p: { caches: { dtype: 'float8' } } })
  const refused = await startLoad(wrong)
  await until(wrong.world, () => refused.outcome === 'failed')
  expect(refused.errorCode).toBe('ERR_KV_PEER_INCOMPATIBLE')
  const sizes = await createPair({ p: { blockCount: 64 }, d: { blockCount: 16 } })
  const request = await startLoad(sizes)
  await until(sizes.world, () => request.outcome === 'loaded')
})

test('#29369 the producer falls silent: nothing is parked for ever', async () => {
  // Upstream: completions are lost under load, and requests wait for ever.
  const pair = await createPair()
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const request = await startLoad(pair)
  pair.world.channels.faults.stop(p0)
  await until(pair.world, () => request.outcome !== 'loading', 11_000)
  expect(request.errorCode).toBe('ERR_KV_DEADLINE')
})

test('#51505, #54707 several requests share one handoff', async () => {
  // Upstream: a list prompt with kv_transfer_params crashes D, from any client (GHSA-6vh8-5j8f-m4vf).
  const pair = await createPair({ times: slowFabric })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const loads = ['d-0', 'd-1', 'd-2'].map((id) => pair.d.admit(id, 30, params))
  pair.d.step()
  await until(pair.world, () => loads.every(({ outcome }) => outcome !== 'loading'))
  const good = loads.filter(({ outcome }) => outcome === 'loaded')
  expect(good).toHaveLength(1)
  expect(await pair.d.isLoadedRight(good[0]!, prompt)).toBe(true)
})

test('#54757 garbage on the side channel', async () => {
  // Upstream: the exception leaves the listener's loop, and no handshake succeeds any more.
  const pair = await createPair()
  const { association } = await connect(pair)
  for (const kind of ['handshake', 'heartbeat', 'renew', 'release', 'wired']) {
    const body = Uint8Array.of(WIRE_VERSION, 255, 255, 255, 255)
    const answer = association.request(`pull.${kind}`, body).catch((error: unknown) => error)
    expect(await pair.world.clock.wait(answer, 100)).toMatchObject({
      code: 'ERR_KV_MESSAGE_INVALID',
    })
  }
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
})

test('#33745, #40364 a failed handshake is a failed load, with its blocks, for the engine’s policy', async () => {
  // Upstream: it ignored the failure policy, and the request hung or was answered wrongly.
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.p.kill()
  const request = pair.d.admit('d-r0', 30, params, 8)
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.failedBlocks).toEqual([...request.blocks.slice(2)])
})

test('#27083 another engine behind the address', async () => {
  // Upstream: "engine ID mismatch" when two engines both say localhost.
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.admit('d-r0', 30, { ...params, remote_engine_id: 'p9' })
  pair.d.step()
  await until(pair.world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_PEER_INCOMPATIBLE')
})

test('#19777 a first handshake that takes long', async () => {
  // Upstream: it ran on the engine's thread and stalled every request for about two seconds.
  const pair = await createPair()
  pair.world.channels.faults.partition(p0, d0)
  const request = await startLoad(pair)
  // The step that carries the load out has returned, and others go on.
  const local = pair.d.admit('d-local', 9, null)
  pair.d.step()
  expect(local.outcome).toBe('running')
  expect(request.outcome).toBe('loading')
  pair.world.channels.faults.heal(p0, d0)
  await until(pair.world, () => request.outcome === 'loaded')
})

test('a dead peer does not hold up handshakes with the others', async () => {
  // Upstream: one thread makes all handshakes, so that one silent peer blocks the rest for 5 s a rank.
  expect(protocolLimits.handshakesInFlightMax).toBeGreaterThan(1)
  const pair = await createPair()
  const silent = await pair.p.prefill('p-silent', prompt, 9)
  pair.world.channels.faults.stop(p0)
  const waiting = pair.d.admit('d-waiting', 9, silent)
  pair.d.step()
  const { Engine } = await import('@kvferry/connector-api/testing')
  const p1 = await Engine.start(pair.world, { engineId: 'p1' })
  const request = pair.d.admit('d-r1', 9, await p1.prefill('p1-r1', prompt, 9))
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded', 100)
  expect(waiting.outcome).toBe('loading')
})
