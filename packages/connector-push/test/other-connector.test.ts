import { asEngineId, asIncarnation } from '@kvferry/connector-api'
import { createWorld, Engine, until } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'

test('a peer with another connector fails the load and names the field', async () => {
  const world = createWorld({ factory: push })
  // Nobody there reads messages of push.
  const p = world.channels.open({ engineId: asEngineId('p0'), incarnation: asIncarnation('p0-1') })
  const d = await Engine.start(world, { engineId: 'd0' })
  const request = d.admit('d-1', 8, {
    ...{ do_remote_prefill: true, transfer_id: 't', tp_size: 1, remote_engine_id: 'p0' },
    ...{ remote_host: '127.0.0.1', remote_port: p.address.port },
  })
  d.step()
  await until(world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_PEER_INCOMPATIBLE')
  expect(d.logs.join()).toContain('connector is push here and another on p0')
})
