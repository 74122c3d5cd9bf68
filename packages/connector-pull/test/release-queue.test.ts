/** Releases that wait for the handshake with their producer, and what its end means for them. */
import { asEngineId } from '@kvferry/connector-api'
import { expect, test, vi } from 'vitest'
import type { Offer } from '../src/load-record.ts'
import type { PeerConnections } from '../src/peer-connections.ts'
import { createCounters } from '../src/pull-counters.ts'
import { ReleaseQueue } from '../src/release-queue.ts'
import { Engine } from './fixtures/engine.ts'
import { createPair, prompt, startLoad, until } from './fixtures/world.ts'

test('the handshake fails: its releases are given up, also for a later one, and others are not', async () => {
  const pair = await createPair({ d: { options: { handshakeTimeoutMs: 500 } } })
  const { d, p, world } = pair
  const other = await Engine.start(world, { engineId: 'p1' })
  const handoffs = [
    await p.prefill('p-r0', prompt, 30),
    await p.prefill('p-r1', prompt, 30),
    await other.prefill('p1-r0', prompt, 30),
  ]
  world.channels.faults.stop(asEngineId('p0'))
  // P1's answer comes later than the failure of P's.
  world.channels.faults.stop(asEngineId('p1'))
  for (const [index, params] of handoffs.slice(0, 2).entries()) {
    d.arrive(`d-r${index}`, 30, params)
    d.finish(`d-r${index}`, 'aborted')
  }
  d.step()
  await world.clock.advance(300)
  d.arrive('d-r2', 30, handoffs[2]!)
  d.finish('d-r2', 'aborted')
  d.step()
  await world.clock.advance(250)
  d.step()
  expect(d.counter('releasesFailed')).toBe(2)
  world.channels.faults.resume(asEngineId('p1'))
  await until(world, () => other.free.length === 64, 100)
  world.channels.faults.resume(asEngineId('p0'))
  await world.clock.advance(500)
  const next = await startLoad(pair, { id: 'r3' })
  await until(world, () => next.outcome === 'loaded')
  await world.clock.advance(100)
  d.step()
  expect(d.counter('releasesFailed')).toBe(2)
  expect(d.counter('releasesSent')).toBe(1)
  expect(p.counter('leasesReleased')).toBe(0)
})

test('what waited for a handshake that failed does not wait for the next one', () => {
  // Seen alone: behind the real connections a failed one is forgotten too, mostly in the same moment.
  const counters = createCounters()
  const failedCount = (): number => counters.snapshot().releasesFailed
  const queue = new ReleaseQueue({} as never, counters, 0)
  const linkTo = vi.fn(() => ({ kind: 'waiting', key: 'p0' }))
  const offer = { handoff: { remote: {} } } as unknown as Offer
  queue.add({ linkTo } as unknown as PeerConnections, offer, 0)
  queue.onFailed('p1')
  expect(failedCount()).toBe(0)
  queue.onFailed('p0')
  expect(failedCount()).toBe(1)
  queue.onForgotten({ linkTo } as unknown as PeerConnections, 'p0')
  expect(linkTo).toHaveBeenCalledTimes(1)
  queue.onFailed('p0')
  expect(failedCount()).toBe(1)
})
