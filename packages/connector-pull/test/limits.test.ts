import { WIRE_VERSION, asRequestId, limits, type KvTransferParams } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { decodeMetadata, encodeMetadata, type MetadataEntry } from '../src/metadata.ts'
import { Engine } from './fixtures/engine.ts'
import { createPair, createWorld, prompt, until } from './fixtures/world.ts'

test('a malformed handoff: no tokens, counted and logged once, computed here', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.arrive('d-r0', 30, { ...params, remote_port: 'x' })
  for (let time = 0; time < 3; time++) expect(pair.d.matched(request)).toBe(0)
  pair.d.allocate(request)
  pair.d.step()
  expect(pair.d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  expect(pair.d.logs.filter((line) => line.includes('remote_port'))).toHaveLength(1)
  expect(pair.d.finish('d-r0', 'stopped')).toBe(null)
  await pair.world.clock.advance(100)
  expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual([])
})

test('a handoff of this very engine is refused', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.p.arrive('p-r1', 30, params)
  expect(pair.p.matched(request)).toBe(0)
})

test('beyond requestCountMax requests are served without KV transfer', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 4)
  for (let at = 0; at < limits.requestCountMax; at++) pair.d.arrive(`d-${at}`, 4, params)
  const refused = pair.d.arrive('d-last', 4, params)
  expect(pair.d.matched(refused)).toBe(0)
  expect(pair.d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  pair.d.finish('d-0', 'aborted')
  expect(pair.d.matched(pair.d.arrive('d-next', 4, params))).toBe(4)
})

test.each([
  ['too long', 'x'.repeat(limits.idSizeBytesMax + 1)],
  ['half a surrogate pair', 'x\ud800'],
])('an id that no notification could carry is served without KV transfer: %s', async (_, id) => {
  const pair = await createPair()
  const request = pair.p.admit(id, 4, { do_remote_decode: true })
  request.view = { ...request.view, computedTokenCount: 4 }
  expect(pair.p.finish(id, 'length-capped')).toBe(null)
  pair.p.step()
})

test('the worker refuses loads beyond its limit, and reports each of them', async () => {
  const world = createWorld()
  const d = await Engine.start(world, { engineId: 'd0', blockCount: 8 })
  const p = await Engine.start(world, { engineId: 'p0' })
  const params = await p.prefill('p-r0', prompt, 4)
  p.kill()
  world.channels.faults.stop(asEngine('p0'))
  const { worker } = d
  const promptDigest = Uint8Array.from(Buffer.from(String(params['remote_prompt_digest']), 'hex'))
  const load = (id: string): void => {
    const blocks = [Uint32Array.of(1)]
    const view = {
      requestId: asRequestId(id),
      ...{ promptTokenCount: 4, promptDigest },
      computedTokenCount: 0,
      kvTransferParams: params,
      finishReason: null,
    }
    d.scheduler.onNewRequest(view)
    d.scheduler.updateStateAfterAlloc(view, blocks, 4)
  }
  const bind = (): void => {
    const step = { stepIndex: 0, scheduled: [], preemptedRequestIds: [] }
    worker.bindConnectorMetadata(d.scheduler.buildConnectorMeta(step))
  }
  for (let at = 0; at < limits.requestCountMax; at++) load(`d-${at}`)
  bind()
  // The scheduler half forgets a request that ended; its load may live on in the worker.
  expect(worker.getTransferResults(new Set()).failed).toEqual([])
  for (const at of [0, 1]) {
    const requestId = asRequestId(`d-${at}`)
    d.scheduler.updateConnectorOutput({ sent: [], received: [requestId], failed: [] })
    d.scheduler.requestFinished(
      {
        requestId,
        ...{ promptTokenCount: 4, promptDigest },
        computedTokenCount: 0,
        kvTransferParams: null,
        finishReason: 'failed',
      },
      [],
    )
    load(`d-more-${at}`)
  }
  bind()
  const { failed, received } = worker.getTransferResults(new Set())
  expect(received).toEqual(['d-more-0', 'd-more-1'])
  expect(failed.map(({ error }) => error.code)).toEqual(['ERR_KV_LIMIT', 'ERR_KV_LIMIT'])
})

const asEngine = (id: string) => id as Parameters<typeof String>[0] as never

test('what does not fit into one step’s metadata leaves with the next, in order', async () => {
  const world = createWorld()
  const tokenCount = 4 * 65_536
  const d = await Engine.start(world, { engineId: 'd0' })
  const params: KvTransferParams = {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: 'p0',
    remote_incarnation: 'p0-1',
    remote_request_id: 'p-r0',
    remote_block_ids: [Array.from({ length: 65_536 }, (_, id) => id)],
    remote_host: '127.0.0.1',
    remote_port: 1,
    remote_num_tokens: tokenCount,
    remote_prompt_digest: '00'.repeat(32),
    remote_block_size: 4,
    remote_lease_deadline_ms: 1,
    remote_signature: '00'.repeat(32),
    tp_size: 1,
    transfer_mode: 'pull',
    wire_version: WIRE_VERSION,
  }
  const blocks = [Uint32Array.from({ length: 65_536 }, (_, id) => id)]
  for (let at = 0; at < 40; at++) {
    const view = {
      requestId: asRequestId(`d-${at}`),
      ...{ promptTokenCount: tokenCount, promptDigest: new Uint8Array(32) },
      computedTokenCount: 0,
      kvTransferParams: params,
      finishReason: null,
    }
    d.scheduler.updateStateAfterAlloc(view, blocks, tokenCount)
  }
  const step = { stepIndex: 0, scheduled: [], preemptedRequestIds: [] }
  const shipped: string[] = []
  let steps = 0
  while (d.scheduler.hasPendingBlockFrees()) {
    const meta = d.scheduler.buildConnectorMeta(step)
    expect(meta.length).toBeLessThanOrEqual(16_777_216)
    for (const entry of decodeMetadata(meta)) {
      if (entry.kind === 'load') shipped.push(entry.requestId)
    }
    steps += 1
  }
  expect(steps).toBe(2)
  expect(shipped).toEqual(Array.from({ length: 40 }, (_, at) => `d-${at}`))
})

test('a prompt that was not computed to its end is not handed over', async () => {
  const pair = await createPair()
  const request = pair.p.admit('p-r0', 30, { do_remote_decode: true })
  request.view = { ...request.view, computedTokenCount: 29 }
  expect(pair.p.finish('p-r0', 'stopped')).toBe(null)
  expect(pair.p.free.length).toBe(64)
})

test('more than one KV group: not handed over by P, refused by D’s worker with its blocks', async () => {
  const pair = await createPair()
  const request = pair.p.admit('p-r0', 8, { do_remote_decode: true })
  const view = { ...request.view, computedTokenCount: 8, finishReason: 'stopped' as const }
  const groups = [request.blocks, request.blocks]
  expect(pair.p.scheduler.requestFinished(view, groups)).toEqual({
    delayFree: false,
    kvTransferParams: null,
  })
  const params = await pair.p.prefill('p-r1', prompt, 8)
  const load = pair.d.arrive('d-r1', 8, params)
  load.outcome = 'loading'
  pair.d.scheduler.updateStateAfterAlloc(load.view, [Uint32Array.of(1, 2), Uint32Array.of(3, 4)], 8)
  pair.d.step()
  await until(pair.world, () => load.outcome === 'failed', 100)
  expect(load.errorCode).toBe('ERR_KV_UNSUPPORTED')
})

test('tokens that do not start at a block are the engine’s mistake', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.arrive('d-r0', 30, params)
  expect(() =>
    pair.d.scheduler.updateStateAfterAlloc(request.view, [new Uint32Array(8)], 29),
  ).toThrow(RangeError)
})

// Smaller blocks than the producer's: its handoff is within the limit.
test('a load of more blocks than one transfer can have reaches the worker, which refuses it by name', () => {
  const requestId = asRequestId('d-r0')
  const blockIds = new Uint32Array(limits.blocksPerPostMax + 1)
  const entries: MetadataEntry[] = [
    { kind: 'load', requestId, tokenEnd: blockIds.length, localBlockIds: [blockIds] },
  ]
  expect(decodeMetadata(encodeMetadata(entries))).toEqual(entries)
})
