import { asRequestId, type KvTransferParams } from '@kvferry/connector-api'
import { createWorld, Engine } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'

// Two ids here, and the same bytes in every message.
const [first, second] = ['id-\ud800', 'id-\ud801']

async function createPair() {
  const world = createWorld({ factory: push })
  const p = await Engine.start(world, { engineId: 'p0' })
  const d = await Engine.start(world, { engineId: 'd0' })
  const toLoad = (transferId: string): KvTransferParams => ({
    ...{ do_remote_prefill: true, transfer_id: transferId, tp_size: 1 },
    ...{ remote_engine_id: 'p0', remote_host: '127.0.0.1', remote_request_id: 'x' },
    remote_port: p.sideChannel.address.port,
  })
  return { world, p, d, toLoad }
}

/** The step in which `id` gets all of its prompt computed. */
function compute(engine: Engine, id: string, computedTokenCountAfter: number): void {
  const requestId = asRequestId(id)
  const scheduled = [{ requestId, computedTokenCountAfter, newBlockIds: [] }]
  engine.host.bind(engine.host.buildMeta(scheduled, []))
  engine.host.save(null)
  engine.host.collect()
}

test('a transfer id that no message carries is refused: no load gets the KV of another prompt', async () => {
  const { world, p, d, toLoad } = await createPair()
  const texts = { 'p-1': 1, 'p-2': 2 }
  for (const [id, text] of Object.entries(texts)) {
    const transferId = text === 1 ? first : second
    const request = p.admit(id, 8, { do_remote_decode: true, transfer_id: transferId }, 0, text)
    await p.fill(request, text)
  }
  p.step()
  const load = d.admit('d-2', 8, toLoad(second), 0, 2)
  d.step()
  await world.clock.advance(1_000)
  compute(p, 'p-1', 8)
  await world.clock.advance(1_000)
  expect(load.outcome).toBe('running')
  expect(d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
  expect(p.metrics.get('kv_messages_refused_total handoff')).toBe(2)
})

test('a request id that no message carries is served without KV transfer', async () => {
  const { p, d, toLoad } = await createPair()
  const request = p.admit(first, 8, { do_remote_decode: true, transfer_id: 't' }, 0, 1)
  await p.fill(request, 1)
  compute(p, first, 8)
  expect(p.finish(first, 'length-capped')).toBe(null)
  expect(request.outcome).toBe('freed')
  expect(d.admit(second, 8, toLoad('t'), 0, 1).outcome).toBe('running')
  expect(d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
})
