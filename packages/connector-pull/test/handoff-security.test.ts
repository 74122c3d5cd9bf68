/**
 * What a handoff can't do: it crossed a router and perhaps a client, so each of these is what somebody
 * there could send. Refused with a code, counted, nothing read, nobody's blocks freed.
 */
import { asEngineId, type KvTransferParams } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { Engine } from './fixtures/engine.ts'
import { createPair, prompt, until, untilAllFree, type Pair } from './fixtures/world.ts'

/** The load that D makes of `params`, at its end. */
async function load(pair: Pair, params: KvTransferParams) {
  const request = pair.d.admit('d-forged', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome !== 'loading')
  return request
}

const signatureOf = (params: KvTransferParams): string => params['remote_signature'] as string

test.each<[string, (params: KvTransferParams) => Record<string, unknown>]>([
  ['other blocks', () => ({ remote_block_ids: [[0, 1, 2, 3, 4, 5, 6, 7]] })],
  ['another request', () => ({ remote_request_id: 'p-other' })],
  [
    'a later deadline',
    (of) => ({ remote_lease_deadline_ms: Number(of['remote_lease_deadline_ms']) + 1 }),
  ],
  ['a made-up signature', () => ({ remote_signature: '00'.repeat(32) })],
  ['one bit of the signature', (of) => ({ remote_signature: flipped(signatureOf(of)) })],
])('%s: ERR_KV_UNAUTHORISED, and nothing is read', async (_, change) => {
  const pair = await createPair()
  await pair.p.prefill('p-other', prompt, 30)
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = await load(pair, { ...params, ...change(params) })
  expect(request.errorCode).toBe('ERR_KV_UNAUTHORISED')
  expect(request.failedBlocks).toEqual([...request.blocks])
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
  expect(pair.d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  // P still holds both for their readers.
  await pair.world.clock.advance(100)
  expect(pair.p.free.length).toBe(48)
  // The genuine one is as good as before.
  const genuine = pair.d.admit('d-genuine', 30, params)
  pair.d.step()
  await until(pair.world, () => genuine.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(genuine, prompt)).toBe(true)
})

test('a genuine one under another prompt of its length: computed, and kept for the right one', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const other = pair.d.admit('d-other', 30, params, 0, 1)
  expect(other.outcome).toBe('running')
  pair.d.step()
  expect(pair.d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  expect(pair.d.logs.join()).toContain('remote_prompt_digest')
  await pair.world.clock.advance(100)
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
  const genuine = pair.d.admit('d-genuine', 30, params)
  pair.d.step()
  await until(pair.world, () => genuine.outcome === 'loaded')
})

test('one that was made to name another prompt: ERR_KV_UNAUTHORISED, and nothing is read', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const other = pair.d.arrive('d-other', 30, null, 0, 1)
  const digest = Buffer.from(other.view.promptDigest).toString('hex')
  const forged = pair.d.admit('d-forged', 30, { ...params, remote_prompt_digest: digest }, 0, 1)
  pair.d.step()
  await until(pair.world, () => forged.outcome !== 'loading')
  expect(forged.errorCode).toBe('ERR_KV_UNAUTHORISED')
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

const flipped = (hex: string): string => (hex.startsWith('0') ? '1' : '0') + hex.slice(1)

test('signed by a former life, sent as the present one’s: another key', async () => {
  const pair = await createPair()
  const old = await pair.p.prefill('p-r0', prompt, 30)
  pair.p.kill()
  const p = await Engine.start(pair.world, { engineId: 'p0', incarnation: 'p0-2' })
  await p.prefill('p-r0', prompt, 30)
  const { port } = p.sideChannel.address
  const request = await load(pair, { ...old, remote_incarnation: 'p0-2', remote_port: port })
  expect(request.errorCode).toBe('ERR_KV_UNAUTHORISED')
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
})

test('used again when its lease is over: ERR_KV_LEASE_EXPIRED, and nothing is read', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const first = pair.d.admit('d-first', 30, params)
  pair.d.step()
  await until(pair.world, () => first.outcome === 'loaded')
  await pair.world.clock.advance(30_100)
  // The engine that gave the same id again holds other blocks under it.
  await pair.p.prefill('p-r0', 8, 30)
  const request = await load(pair, params)
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(pair.d.agent.counters().transfersPosted).toBe(1)
})

test('a forged one that meets a full hit frees nobody’s blocks', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const forged = { ...params, remote_signature: flipped(signatureOf(params)) }
  pair.d.admit('d-forged', 30, forged, 32)
  pair.d.step()
  await pair.world.clock.advance(100)
  expect(pair.p.free.length).toBe(56)
  expect(pair.d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  expect(pair.d.logs.join()).toContain('not released')
})

test('a forged one for a producer that stages its blocks claims nobody’s lease', async () => {
  const pair = await createPair({ p: { config: { bufferDevice: 'host' } } })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const forged = { ...params, remote_signature: flipped(signatureOf(params)) }
  const [wrong, right] = [forged, params].map((one, at) => pair.d.admit(`d-${at}`, 30, one))
  pair.d.step()
  await until(pair.world, () => wrong!.outcome !== 'loading' && right!.outcome !== 'loading')
  expect([wrong!.errorCode, right!.outcome]).toEqual(['ERR_KV_UNAUTHORISED', 'loaded'])
  expect(await pair.d.isLoadedRight(right!, prompt)).toBe(true)
})

const peers = (pair: Pair, engineId: string) => [
  { engineId: asEngineId(engineId), host: '127.0.0.1', port: pair.p.sideChannel.address.port },
]

test('with configured peers their addresses are called, whatever the handoff says', async () => {
  const pair = await createPair()
  const d1 = await Engine.start(pair.world, {
    engineId: 'd1',
    config: { peers: peers(pair, 'p0') },
  })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const stranger = await Engine.start(pair.world, { engineId: 'stranger' })
  const { port } = stranger.sideChannel.address
  const request = d1.admit('d1-r0', 30, { ...params, remote_host: '10.1.2.3', remote_port: port })
  d1.step()
  await until(pair.world, () => request.outcome === 'loaded')
  await untilAllFree({ ...pair, d: d1 })
})

test('with configured peers a stranger is not called', async () => {
  const pair = await createPair()
  const d1 = await Engine.start(pair.world, {
    engineId: 'd1',
    config: { peers: peers(pair, 'p-another') },
  })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = d1.admit('d1-r0', 30, params)
  d1.step()
  await until(pair.world, () => request.outcome === 'failed', 100)
  expect(request.errorCode).toBe('ERR_KV_UNAUTHORISED')
  expect(d1.counter('handshakesDone') + d1.counter('handshakesFailed')).toBe(0)
})

test('a false address leads to nobody, and does not keep others from the right one', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = await load(pair, { ...params, remote_port: 1 })
  expect(request.errorCode).toBe('ERR_KV_PEER_UNAVAILABLE')
  const genuine = pair.d.admit('d-genuine', 30, params)
  pair.d.step()
  await until(pair.world, () => genuine.outcome === 'loaded')
})

test('a forged handoff that calls P by another name leaves the connection to P as it was', async () => {
  // This was a bug: the second handshake made the first one's handles stale, for ever.
  const pair = await createPair()
  const first = await pair.p.prefill('p-r0', prompt, 30)
  const before = pair.d.admit('d-before', 30, first)
  pair.d.step()
  await until(pair.world, () => before.outcome === 'loaded')
  const params = await pair.p.prefill('p-r1', prompt, 30)
  const aliased = { ...params, remote_host: 'localhost', remote_signature: '00'.repeat(32) }
  const forged = await load(pair, aliased)
  expect(forged.errorCode).toBe('ERR_KV_UNAUTHORISED')
  const genuine = pair.d.admit('d-genuine', 30, params)
  pair.d.step()
  await until(pair.world, () => genuine.outcome !== 'loading')
  expect(genuine.outcome).toBe('loaded')
  expect(pair.d.counter('handshakesDone')).toBe(1)
})

test('called by two names at once, P is one peer: one of them waits for another try at most', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const aliased = { ...params, remote_host: 'localhost', remote_signature: '00'.repeat(32) }
  const forged = pair.d.admit('d-forged', 30, aliased)
  const genuine = pair.d.admit('d-genuine', 30, params)
  pair.d.step()
  await until(pair.world, () => ![forged, genuine].some(({ outcome }) => outcome === 'loading'))
  expect(forged.outcome).toBe('failed')
  const again = pair.d.admit('d-again', 30, await pair.p.prefill('p-r1', prompt, 30))
  pair.d.step()
  await until(pair.world, () => again.outcome !== 'loading')
  expect(again.outcome).toBe('loaded')
})
