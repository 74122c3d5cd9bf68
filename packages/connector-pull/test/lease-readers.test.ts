/** Whose a lease is: a request's that comes back under its id, and an engine's while another gives it back. */
import { expect, test } from 'vitest'
import { Engine } from './fixtures/engine.ts'
import { createPair, prompt, slowFabric, startLoad, until } from './fixtures/world.ts'

test('an id that the engine uses again is a new lease, though the old one is remembered', async () => {
  const pair = await createPair()
  for (const id of ['d-first', 'd-second']) {
    const params = await pair.p.prefill('p-r0', prompt, 30)
    const request = pair.d.admit(id, 30, params)
    pair.d.step()
    await until(pair.world, () => request.outcome === 'loaded')
    await until(pair.world, () => pair.p.free.length === 64)
  }
})

test('a full hit on one engine does not free what another is reading', async () => {
  const pair = await createPair({ times: slowFabric })
  const d1 = await Engine.start(pair.world, { engineId: 'd1' })
  const reading = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  await pair.world.clock.advance(1)
  const params = JSON.parse(JSON.stringify(pair.p.requests.get('p-r0')!.params))
  d1.admit('d1-r0', 30, params, 32)
  d1.step()
  await pair.world.clock.advance(1)
  expect(pair.p.metrics.get('kv_messages_refused_total lease')).toBe(1)
  await until(pair.world, () => reading.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(reading, prompt)).toBe(true)
})
