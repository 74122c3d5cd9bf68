import { asEngineId } from '@kvferry/connector-api'
import { protocolLimits } from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'
import { pullLimits } from '../src/limits.ts'
import { createPair, startLoad, until, untilAllFree } from './fixtures/world.ts'

const options = { leaseDurationMs: 2_000, transferDeadlineMs: 500 }

/** A READ under way to a P that is stopped, and D's question for its lease lost with the connection. */
async function readOfStoppedProducer() {
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
  const resume = (): void => {
    channels.faults.resume(p0)
    fabric.faults.resume(pair.p.agent.name)
  }
  return { pair, request, clock, resume }
}

test('P goes on after the unclaimed lease: it polls, and the READ ends', async () => {
  // This was a bug: nobody polled for the READ any more, and its request waited for ever.
  const { pair, request, clock, resume } = await readOfStoppedProducer()
  // The lease runs out.
  await clock.advance(2_100)
  expect(request.outcome).toBe('loading')
  resume()
  await until(pair.world, () => request.outcome !== 'loading', 1_000)
  expect(request.outcome).toBe('failed')
  await untilAllFree(pair)
})

test('P goes on long after: D has it poll again, and the READ ends', async () => {
  const { pair, request, clock, resume } = await readOfStoppedProducer()
  // Nobody at P remembers the READ.
  await clock.advance(options.leaseDurationMs + 2 * pullLimits.stragglerTimeoutMs)
  expect(request.outcome).toBe('loading')
  resume()
  await until(pair.world, () => request.outcome !== 'loading', 3 * pullLimits.overdueReadAskMs)
  expect(request.outcome).toBe('failed')
  await untilAllFree(pair)
  // And asks no more: once P's time to poll is over, it polls for nobody.
  await clock.advance(protocolLimits.wireUpTimeoutMs + pullLimits.overdueReadAskMs)
  const { polls } = pair.p.agent.counters()
  await clock.advance(4 * pullLimits.overdueReadAskMs)
  expect(pair.p.agent.counters().polls).toBe(polls)
})
