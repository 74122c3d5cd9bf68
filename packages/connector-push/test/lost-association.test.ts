import { asEngineId, asRequestId } from '@kvferry/connector-api'
import { createWorld, Engine, until } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'

const leaseDurationMs = 2_000

test('a lost association costs a request that waits for room nothing: another one keeps its blocks', async () => {
  const world = createWorld({ factory: push })
  const options = { leaseDurationMs }
  const p = await Engine.start(world, { engineId: 'p0', options })
  const d = await Engine.start(world, { engineId: 'd0', options })
  const prefill = p.admit('p-1', 8, { do_remote_decode: true, transfer_id: 't' }, 0, 1)
  await p.fill(prefill, 1)
  const request = d.arrive(
    'd-1',
    8,
    {
      ...{ do_remote_prefill: true, transfer_id: 't', tp_size: 1, remote_engine_id: 'p0' },
      ...{ remote_host: '127.0.0.1', remote_port: p.sideChannel.address.port },
    },
    0,
    1,
  )
  d.step()
  const requestId = asRequestId('p-1')
  p.host.bind(p.host.buildMeta([{ requestId, computedTokenCountAfter: 8, newBlockIds: [] }], []))
  p.host.save(null)
  prefill.view = { ...prefill.view, computedTokenCount: 8 }
  p.finish('p-1', 'length-capped')
  p.step()
  await world.clock.advance(leaseDurationMs / 2)
  world.channels.faults.breakAssociations(asEngineId('p0'), asEngineId('d0'))
  await world.clock.advance(3 * leaseDurationMs)
  d.allocate(request)
  d.step()
  await until(world, () => request.outcome !== 'loading')
  expect(request.errorCode).toBe(null)
  expect(await d.isLoadedRight(request, 1)).toBe(true)
})
