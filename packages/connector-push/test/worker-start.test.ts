import { ConnectorError } from '@kvferry/connector-api'
import { createWorld, Engine } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'

test('a start that fails after the registration leaves no memory registered', async () => {
  const details = { operation: 'metadata', status: 'no' }
  const error = new ConnectorError('ERR_NIXL', 'no metadata', details)
  const engine = new Engine(createWorld({ factory: push }), {
    engineId: 'd0',
    wrapAgent: (agent) => ({ ...agent, localMetadata: () => Promise.reject(error) }),
  })
  const { clock } = engine.world
  await expect(clock.wait(engine.host.register(), 1_000)).rejects.toBe(error)
  await clock.wait(engine.host.shutdown(), 1_000)
  expect(() => engine.caches.regions[0]!.memory.free()).not.toThrow()
})
