import { asEngineId } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { createPair, startLoad, until, untilAllFree } from './fixtures/world.ts'

test('the question is lost while P is stopped: P polls after the unclaimed lease, and the READ ends', async () => {
  // This was a bug: nobody polled for the READ any more, and its request waited for ever.
  const options = { leaseDurationMs: 2_000, transferDeadlineMs: 500 }
  const pair = await createPair({ p: { options }, d: { options } })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const { channels, clock, fabric } = pair.world
  const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]
  channels.faults.stop(p0)
  fabric.faults.stop(pair.p.agent.name)
  const request = await startLoad(pair)
  await clock.advance(10)
  channels.faults.breakAssociations(p0, d0)
  // The lease runs out.
  await clock.advance(2_100)
  expect(request.outcome).toBe('loading')
  channels.faults.resume(p0)
  fabric.faults.resume(pair.p.agent.name)
  await until(pair.world, () => request.outcome !== 'loading', 1_000)
  expect(request.outcome).toBe('failed')
  await untilAllFree(pair)
})
