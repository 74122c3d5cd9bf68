/**
 * Turn 2: the decode engine keeps prompt and answer for a while, and the prefill engine of the next turn
 * reads them from it instead of computing them. Items 35 to 39 of vLLM's list.
 */
import type { KvTransferParams, RequestView } from '@kvferry/connector-api'
import { Engine, type EngineRequest } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { createPair, prompt, slowFabric, until, type Pair } from './fixtures/world.ts'

const options = { bidirectional: true }
const pairOf = (times = {}): Promise<Pair> => createPair({ times, p: { options }, d: { options } })

/** Turn 1 on D: loads a prompt from P, computes an answer behind it, and ends by itself. */
async function firstTurn(
  pair: Pair,
  turn: { id?: string; promptTokenCount?: number; tokenCount?: number } = {},
): Promise<KvTransferParams> {
  const { id = 't1', promptTokenCount = 20, tokenCount = 26 } = turn
  const { p, d, world } = pair
  const request = d.admit(
    `d-${id}`,
    promptTokenCount,
    await p.prefill(`p-${id}`, prompt, promptTokenCount),
  )
  d.step()
  await until(world, () => request.outcome === 'loaded')
  const more = Math.ceil(tokenCount / d.host.blockTokens) - request.blocks.length
  request.blocks = Uint32Array.of(...request.blocks, ...d.free.splice(0, more))
  request.view = { ...request.view, promptTokenCount: tokenCount }
  await d.fill(request, prompt)
  request.view = { ...request.view, promptTokenCount, computedTokenCount: tokenCount }
  const params = d.finish(`d-${id}`, 'stopped')
  if (params === null) throw new Error(`no handoff: ${d.logs.join('; ')}`)
  d.step()
  await until(world, () => p.free.length === 64)
  return JSON.parse(JSON.stringify(params)) as KvTransferParams
}

/** The first `end` tokens of it hold the conversation's bytes. */
const isRightUpTo = (engine: Engine, request: EngineRequest, end: number): Promise<boolean> =>
  engine.isLoadedRight({ ...request, view: { ...request.view, promptTokenCount: end } }, prompt)

/** Turn 2 on P, up to its load's end. */
async function secondTurn(pair: Pair, params: KvTransferParams, tokenCount: number, hits = 0) {
  const request = pair.p.admit('p-t2', tokenCount, params, hits)
  pair.p.step()
  await until(pair.world, () => request.outcome !== 'loading')
  return request
}

test('36: D returns coordinates of its own and frees nothing', async () => {
  const pair = await pairOf()
  const params = await firstTurn(pair)
  expect(params).toMatchObject({
    do_remote_prefill: false,
    do_remote_decode: true,
    remote_engine_id: 'd0',
    remote_num_tokens: 26,
    remote_port: pair.d.sideChannel.address.port,
  })
  expect(pair.d.free.length).toBe(64 - 7)
  await pair.world.clock.advance(400_000)
  expect(pair.d.free.length).toBe(64 - 7)
  await until(pair.world, () => pair.d.free.length === 64, 81_000)
  expect(pair.d.scheduler.hasPendingBlockFrees()).toBe(false)
})

test('35: the next turn loads what was said, computes the rest, and is handed over in turn', async () => {
  const pair = await pairOf()
  const params = await firstTurn(pair)
  const request = await secondTurn(pair, params, 40)
  expect(request.outcome).toBe('loaded')
  expect(await isRightUpTo(pair.p, request, 26)).toBe(true)
  // D frees at P's word.
  await until(pair.world, () => pair.d.free.length === 64, 100)
  request.view = { ...request.view, computedTokenCount: 40 }
  const next = pair.p.finish('p-t2', 'length-capped')
  expect(next).toMatchObject({ do_remote_prefill: true, remote_num_tokens: 40 })
  await pair.p.fill(request, prompt)
  const again = pair.d.admit('d-t2', 40, JSON.parse(JSON.stringify(next)))
  pair.d.step()
  await until(pair.world, () => again.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(again, prompt)).toBe(true)
})

test.each([
  ['as much as the prompt', 26, 0, 26],
  ['a partial last block', 27, 0, 26],
  ['partial coverage, and a local hit', 40, 8, 26],
  ['a hit to the last whole block', 40, 24, 26],
])('35: %s', async (_, tokenCount, hits, loadedEnd) => {
  const pair = await pairOf()
  const params = await firstTurn(pair)
  const request = pair.p.arrive('p-t2', tokenCount, params, hits)
  expect(pair.p.matched(request)).toBe(loadedEnd - hits)
  pair.p.allocate(request)
  pair.p.step()
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await isRightUpTo(pair.p, request, loadedEnd)).toBe(true)
  await until(pair.world, () => pair.d.free.length === 64, 100)
})

test('35: all of it cached on P, or too little missing: nothing is read, and D frees at once', async () => {
  const pair = await createPair({
    p: { options: { ...options, recomputeThreshold: 4 } },
    d: { options },
  })
  for (const [id, hits] of [
    ['full', 28],
    ['little', 24],
  ] as const) {
    const params = await firstTurn(pair, { id })
    pair.p.admit(`p-${id}-2`, 40, params, hits)
    pair.p.step()
    await until(pair.world, () => pair.d.free.length === 64, 100)
    pair.p.finish(`p-${id}-2`, 'aborted')
  }
  expect(pair.p.agent.counters().transfersPosted).toBe(0)
})

test.each([
  ['another conversation, of this length', 40, 1],
  ['another prompt, as long as what was said', 26, 1],
  // Of what D holds it would be a part, which a digest of the whole says nothing about.
  ['a prompt that ends inside the last turn', 16, 0],
])('35: %s: refused, and computed', async (_, tokenCount, text) => {
  const pair = await pairOf()
  const params = await firstTurn(pair)
  const request = pair.p.admit('p-t2', tokenCount, params, 0, text)
  expect(request.outcome).toBe('running')
  pair.p.step()
  expect(pair.p.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  await pair.world.clock.advance(100)
  expect(pair.p.agent.counters().transfersPosted).toBe(0)
  expect(pair.d.free.length, 'the right turn may still come').toBe(64 - 7)
  request.view = { ...request.view, computedTokenCount: tokenCount }
  expect(pair.p.finish('p-t2', 'length-capped')).toMatchObject({ do_remote_prefill: true })
})

test('35: an engine that has no digests of parts hands nothing back', async () => {
  const pair = await pairOf()
  const request = pair.d.admit('d-t1', 20, await pair.p.prefill('p-t1', prompt, 20))
  pair.d.step()
  await until(pair.world, () => request.outcome === 'loaded')
  const view: RequestView & { digestOf?: unknown } = { ...request.view, computedTokenCount: 20 }
  delete view.digestOf
  request.view = view
  expect(pair.d.finish('d-t1', 'stopped')).toBe(null)
  expect(pair.d.free.length).toBe(64)
})

test('35: the first turn, with null coordinates as old routers send them, is a plain prefill', async () => {
  const pair = await pairOf()
  const nulls = {
    remote_engine_id: null,
    remote_block_ids: null,
    remote_host: null,
    remote_port: null,
  }
  const request = pair.p.arrive('p-r0', 20, { do_remote_decode: true, ...nulls })
  expect(pair.p.matched(request)).toBe(0)
  expect(pair.p.metrics.get('kv_messages_refused_total handoff')).toBe(undefined)
})

test('35: a malformed one is counted, and the prompt is computed and handed over all the same', async () => {
  const pair = await pairOf()
  const params = await firstTurn(pair)
  const request = pair.p.arrive('p-t2', 40, { ...params, remote_num_tokens: 99 })
  expect(pair.p.matched(request)).toBe(0)
  pair.p.allocate(request)
  pair.p.step()
  expect(pair.p.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  request.view = { ...request.view, computedTokenCount: 40 }
  expect(pair.p.finish('p-t2', 'length-capped')).toMatchObject({ do_remote_prefill: true })
})

test('without the option neither side does any of it', async () => {
  const pair = await createPair({ p: { options }, d: {} })
  await expect(firstTurn(pair)).rejects.toThrow('no handoff')
  const other = await createPair({ p: {}, d: { options } })
  const params = await firstTurn(other)
  const request = other.p.arrive('p-t2', 40, params)
  expect(other.p.matched(request)).toBe(0)
})

test('37: after a preemption P does not read again', async () => {
  const pair = await pairOf()
  const request = await secondTurn(pair, await firstTurn(pair), 40)
  expect(request.outcome).toBe('loaded')
  expect(pair.p.matched(request)).toBe(0)
  pair.p.allocate(request)
  pair.p.step(['p-t2'])
  await pair.world.clock.advance(50)
  expect(pair.p.agent.counters().transfersPosted).toBe(1)
})

test('38: P gives the turn up while it reads: its blocks come back with the READ’s end, D’s too', async () => {
  const pair = await pairOf(slowFabric)
  const params = await firstTurn(pair)
  const request = pair.p.admit('p-t2', 40, params)
  pair.p.step()
  await until(pair.world, () => pair.p.agent.counters().transfersOpen > 0)
  expect(pair.p.finish('p-t2', 'aborted')).toBe(null)
  await until(pair.world, () => request.outcome === 'freed')
  expect(pair.p.agent.counters().transfersOpen).toBe(0)
  await until(pair.world, () => pair.d.free.length === 64, 1_000)
})

test.each(['aborted', 'failed'] as const)(
  '38: a decode that ended %s keeps nothing',
  async (reason) => {
    const pair = await pairOf()
    const request = pair.d.admit('d-r0', 20, await pair.p.prefill('p-r0', prompt, 20))
    pair.d.step()
    await until(pair.world, () => request.outcome === 'loaded')
    request.view = { ...request.view, computedTokenCount: 25 }
    expect(pair.d.finish('d-r0', reason)).toBe(null)
    expect(pair.d.free.length).toBe(64)
  },
)

test('39: close to its end by D’s clock the read is declined, and the turn is computed', async () => {
  const pair = await pairOf()
  const params = await firstTurn(pair)
  await pair.world.clock.advance(480_000 - 4_000)
  const request = await secondTurn(pair, params, 40)
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
  expect(pair.p.agent.counters().transfersPosted).toBe(0)
  expect(pair.d.free.length).toBe(64 - 7)
})

test('39: on two clocks: neither read too late nor declined too early', async () => {
  const pair = await pairOf()
  const { clock } = pair.world
  const p = await Engine.start(pair.world, {
    engineId: 'p1',
    options,
    clock: { now: () => (clock.now() + 1e9) as never, after: (ms, run) => clock.after(ms, run) },
  })
  const params = await firstTurn({ ...pair })
  await clock.advance(470_000)
  const request = await secondTurn({ ...pair, p }, params, 40)
  expect(request.outcome).toBe('loaded')
  expect(await isRightUpTo(p, request, 26)).toBe(true)
})

test('a request that was queued on P long past the time to live keeps D’s blocks', async () => {
  const short = { bidirectional: true, decoderBlocksTtlMs: 20_000 }
  const pair = await createPair({ p: { options: short }, d: { options: short } })
  const params = await firstTurn(pair)
  const request = pair.p.arrive('p-t2', 40, params)
  pair.p.step()
  await pair.world.clock.advance(60_000)
  pair.p.allocate(request)
  pair.p.step()
  await until(pair.world, () => request.outcome === 'loaded')
})
