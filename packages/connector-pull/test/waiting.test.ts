import { expect, test } from 'vitest'
import { createPair, prompt } from './fixtures/world.ts'

test('blocks that a request waits to load are kept for ten leases, and no longer', async () => {
  // This was a bug: two engines that served each other held, each for the other, what both waited for.
  const options = { leaseDurationMs: 2_000 }
  const pair = await createPair({ p: { options }, d: { options } })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.arrive('d-r0', 30, params)
  pair.d.requestStep()
  await pair.world.clock.advance(19_000)
  expect(pair.p.free.length).toBe(56)
  await pair.world.clock.advance(4_000)
  expect(pair.p.free.length).toBe(64)
  // It comes too late, and is told so.
  pair.d.allocate(request)
  pair.d.step()
  await pair.world.clock.advance(1_000)
  expect(request.errorCode).toBe('ERR_KV_LEASE_EXPIRED')
})
