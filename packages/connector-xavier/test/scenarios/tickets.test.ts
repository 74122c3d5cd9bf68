/** Tickets between whole engines, under the names of Xavier's requirements (decision 12). */
import { expect, test } from 'vitest'
import {
  agentOf,
  counter,
  d0,
  handoff,
  open,
  p0,
  posted,
  serve,
  settle,
  shortLives,
  until,
  untilServed,
  untilWriting,
} from '../fixtures/story.ts'

const options = shortLives

/** All of the consumer's room is taken for a while. */
const takeRoom = {
  id: 'd0/local',
  prompt: 9,
  promptTokenCount: 20,
  outputTokenCount: 20,
  params: null,
}
const tightConsumer = { d0: { blockCount: 10, stepMs: 400 } }

test('RT-01: a preempted request is computed; it is registered once, and the engine goes on', async () => {
  const engine = { d0: { blockCount: 20 } }
  const cluster = await open({ engine })
  const journeys = [1, 2, 3].map((prompt) =>
    serve(cluster, { id: `r${prompt}`, prompt, outputTokenCount: 12 }),
  )
  await until(cluster, () => journeys.every(({ outcome }) => outcome === 'done'))
  expect(cluster.auditor.transcript.some((line) => line.includes('is preempted'))).toBe(true)
  expect(counter(cluster, 'p0', 'registrationsAccepted')).toBe(3)
  await settle(cluster)
})

test('RT-02: nobody claims in time: the blocks go back by timer, the late load is computed', async () => {
  const cluster = await open({ engines: { options } })
  const journey = await handoff(cluster)
  await cluster.world.clock.advance(1_900)
  expect(cluster.engine('p0').heldBlockCount).toBeGreaterThan(0)
  await cluster.world.clock.advance(200)
  expect(cluster.engine('p0').heldBlockCount).toBe(0)
  const late = cluster.router.repeat(journey, 'd0', 'late')
  await untilServed(cluster, late)
  expect(late.outcome).toBe('done')
  expect(late.consumer!.loadError).toBe('ERR_KV_LEASE_EXPIRED')
  expect(counter(cluster, 'p0', 'leasesExpired')).toBe(1)
  await settle(cluster)
})

test('RT-04: given up before it was asked for, while it waits for room, and once it is allocated', async () => {
  const cluster = await open({ engine: tightConsumer })
  cluster.engine('d0').submit(takeRoom)
  const waiting = serve(cluster)
  await until(cluster, () => waiting.consumer?.status === 'waiting')
  await until(cluster, () => counter(cluster, 'd0', 'heartbeatsDone') > 0)
  cluster.engine('d0').abort(waiting.consumer!.id)
  await until(cluster, () => cluster.engine('p0').heldBlockCount === 0, 2_000)
  expect(posted(cluster)).toBe(0)

  const loading = serve(cluster, { id: 'r2', prompt: 2 })
  await untilWriting(cluster)
  cluster.engine('d0').abort(loading.consumer!.id)
  // Not released: the WRITE ends first, and the engine hears of it.
  expect(loading.consumer!.awaited).toEqual(new Set(['received']))
  await settle(cluster)
  expect(counter(cluster, 'p0', 'ticketsFinished')).toBe(2)
  expect(counter(cluster, 'd0', 'loadsAborted')).toBe(1)
})

test('RT-06: what another engine says of a claimed ticket is ignored, and the bytes are right', async () => {
  const cluster = await open({ consumerCount: 2 })
  const journey = serve(cluster)
  await untilWriting(cluster)
  const other = cluster.router.repeat(journey, 'd1', 'other')
  await until(cluster, () => other.consumer !== null)
  cluster.engine('d1').abort(other.consumer!.id)
  await untilServed(cluster, journey)
  expect(journey.consumer!.loadError).toBe(null)
  expect(journey.consumer!.externalTokenCount).toBe(30)
  await settle(cluster)
})

test('K1: the second claimant of a ticket computes, the first loads', async () => {
  const cluster = await open({ consumerCount: 2, engine: tightConsumer })
  cluster.engine('d0').submit(takeRoom)
  const first = serve(cluster)
  // The first has no room yet: only its claim keeps the other one out.
  await until(cluster, () => counter(cluster, 'd0', 'heartbeatsDone') > 0)
  const second = cluster.router.repeat(first, 'd1', 'second')
  await untilServed(cluster, second)
  expect(second.consumer!.loadError).toBe('ERR_KV_UNAUTHORISED')
  await untilServed(cluster, first)
  expect(first.consumer!.loadError).toBe(null)
  expect(counter(cluster, 'p0', 'claimsRefused')).toBeGreaterThan(0)
  await settle(cluster)
})

test('a forged ticket opens nothing', async () => {
  const cluster = await open()
  const journey = await handoff(cluster)
  const forged = { ...journey, handoff: { ...journey.handoff, remote_ticket: '0'.repeat(32) } }
  const thief = cluster.router.repeat(forged, 'd0', 'thief')
  await untilServed(cluster, thief)
  expect(thief.consumer!.loadError).toBe('ERR_KV_LEASE_EXPIRED')
  expect(posted(cluster)).toBe(0)
  expect(cluster.engine('p0').heldBlockCount).toBeGreaterThan(0)
  const genuine = cluster.router.repeat(journey, 'd0', 'genuine')
  await untilServed(cluster, genuine)
  expect(genuine.consumer!.loadError).toBe(null)
  await settle(cluster)
})

test('RT-07, RT-24: one WRITE fails: its load fails by name, the others arrive', async () => {
  const cluster = await open()
  await untilServed(cluster, serve(cluster, { id: 'first', prompt: 9 }))
  cluster.world.fabric.faults.failNextPosts(cluster.engine('p0').host.ranks[0]!.agent.name, 1)
  const journeys = [1, 2, 3].map((prompt) => serve(cluster, { id: `r${prompt}`, prompt }))
  await until(cluster, () => journeys.every(({ outcome }) => outcome === 'done'))
  const errors = journeys.map(({ consumer }) => consumer!.loadError)
  expect(errors.filter((error) => error !== null)).toEqual(['ERR_KV_TRANSFER_FAILED'])
  expect(counter(cluster, 'p0', 'leasesExpired')).toBe(0)
  await settle(cluster)
})

test('RT-10, RT-14: an engine without tickets is asked nothing; each end is reported once', async () => {
  const cluster = await open()
  await untilServed(cluster, serve(cluster))
  await settle(cluster)
  const { host } = cluster.engine('p0')
  expect(host.scheduler.hasPendingBlockFrees()).toBe(false)
  expect(host.collect()).toEqual({ sent: [], received: [], failed: [] })
  const pending = cluster.world.clock.pendingCount
  await cluster.world.clock.advance(1_000)
  expect(cluster.world.clock.pendingCount).toBeLessThanOrEqual(pending)
})

test('RT-15, RT-22: expired between claim and load: all blocks invalid and received, no byte moved', async () => {
  const cluster = await open({
    engines: { options: { unclaimedTicketMs: 1_000, claimedTicketMs: 1_000 } },
    engine: tightConsumer,
  })
  cluster.engine('d0').submit(takeRoom)
  const journey = serve(cluster)
  await until(cluster, () => counter(cluster, 'd0', 'heartbeatsDone') > 0)
  // Its heartbeats don't come through any more.
  cluster.world.channels.faults.partition(p0, d0)
  await until(cluster, () => cluster.engine('p0').heldBlockCount === 0, 10_000)
  cluster.world.channels.faults.heal(p0, d0)
  await untilServed(cluster, journey)
  expect(journey.outcome).toBe('done')
  expect(journey.consumer!.loadError).toBe('ERR_KV_LEASE_EXPIRED')
  expect(posted(cluster)).toBe(0)
  await settle(cluster)
})

test('RT-19: claimed, never read, its consumer silent: reclaimed, once, and nothing is left', async () => {
  const cluster = await open({ engines: { options }, engine: tightConsumer })
  cluster.engine('d0').submit(takeRoom)
  serve(cluster)
  await until(cluster, () => counter(cluster, 'd0', 'heartbeatsDone') > 0)
  cluster.kill('d0')
  await until(cluster, () => cluster.engine('p0').heldBlockCount === 0, 11_000)
  await cluster.world.clock.advance(1_000)
  expect(counter(cluster, 'p0', 'leasesExpired')).toBe(1)
  expect(counter(cluster, 'p0', 'leasesOpen')).toBe(0)
})

test('RT-20: a read without end outlives every deadline of its ticket', async () => {
  const cluster = await open({ engines: { options: { ...options, transferDeadlineMs: 500 } } })
  const journey = serve(cluster)
  await untilWriting(cluster)
  const { name } = cluster.engine('d0').host.ranks[0]!.agent
  cluster.world.fabric.faults.stall(name)
  await cluster.world.clock.advance(20_000)
  expect(cluster.engine('p0').heldBlockCount).toBeGreaterThan(0)
  expect(counter(cluster, 'p0', 'blocksQuarantined')).toBeGreaterThan(0)
  cluster.world.fabric.faults.unstall(name)
  await untilServed(cluster, journey)
  expect(journey.consumer!.loadError).toBe(null)
  await settle(cluster)
})

test('RT-21: a consumer without room keeps its claim alive for longer than it would live', async () => {
  const cluster = await open({
    engines: { options: { unclaimedTicketMs: 1_000, claimedTicketMs: 1_000 } },
    engine: tightConsumer,
  })
  cluster.engine('d0').submit(takeRoom)
  const journey = serve(cluster)
  await untilServed(cluster, journey)
  expect(cluster.world.clock.now()).toBeGreaterThan(3_000)
  expect(journey.consumer!.loadError).toBe(null)
  expect(counter(cluster, 'p0', 'leasesExpired')).toBe(0)
  await settle(cluster)
})

test('RT-31: a full local hit releases once, and asks for nothing', async () => {
  const engines = { freeMode: 'cached', options: { recomputeThreshold: 8 } } as const
  const cluster = await open({ engines })
  await untilServed(cluster, serve(cluster))
  const again = serve(cluster, { id: 'again', promptTokenCount: 16 })
  await untilServed(cluster, again)
  // Its last token is computed in any case, so its last block is never a hit.
  expect(again.consumer!.hitTokenCount).toBe(12)
  expect(again.consumer!.externalTokenCount).toBe(0)
  await until(cluster, () => cluster.engine('p0').heldBlockCount === 0, 1_000)
  expect(posted(cluster)).toBe(1)
  expect(counter(cluster, 'p0', 'claimsRefused')).toBe(0)
  await settle(cluster)
})

test('RT-50: what is hit locally is not written: the rest goes into its own place', async () => {
  const engines = { freeMode: 'cached', blockTokens: 16 } as const
  const cluster = await open({ engines })
  await untilServed(cluster, serve(cluster, { promptTokenCount: 16 }))
  const { bytesMoved } = agentOf(cluster, 'p0').counters()
  const next = serve(cluster, { id: 'next', promptTokenCount: 32 })
  await untilServed(cluster, next)
  // The auditor has compared every byte of both blocks.
  expect(next.consumer!.hitTokenCount).toBe(16)
  expect(next.consumer!.externalTokenCount).toBe(16)
  expect(agentOf(cluster, 'p0').counters().bytesMoved - bytesMoved).toBe(bytesMoved)
  await settle(cluster)
})

test('cancellation storms: whatever is given up when, every ticket ends and no block is lost', async () => {
  const cluster = await open({ consumerCount: 2 })
  const journeys = Array.from({ length: 24 }, (_, index) =>
    serve(cluster, { id: `r${index}`, prompt: index, consumer: `d${index % 2}` }),
  )
  for (const [index, journey] of journeys.entries()) {
    await cluster.world.clock.advance(3 + ((index * 7) % 11))
    const { consumer, consumerEngine, producer, producerEngine } = journey
    if (consumer !== null && consumer.status !== 'ended') consumerEngine!.abort(consumer.id)
    else if (producer !== null && producer.status !== 'ended') producerEngine!.abort(producer.id)
  }
  await settle(cluster)
})

test('a ticket that reached nobody is over at once, one that was claimed is not', async () => {
  const cluster = await open({ engine: tightConsumer })
  const lost = await handoff(cluster)
  const producer = cluster.engine('p0')
  producer.abort(lost.producer!.id)
  await cluster.world.clock.advance(100)
  expect(producer.heldBlockCount).toBe(0)
  expect(counter(cluster, 'p0', 'handoffsUndelivered')).toBe(1)
  expect(counter(cluster, 'p0', 'leasesExpired')).toBe(0)
  // It was delivered after all.
  const late = cluster.router.repeat(lost, 'd0', 'late')
  await untilServed(cluster, late)
  expect(late.consumer!.loadError).toBe('ERR_KV_LEASE_EXPIRED')

  cluster.engine('d0').submit(takeRoom)
  const waiting = serve(cluster, { id: 'r2', prompt: 2 })
  await until(cluster, () => waiting.consumer?.status === 'waiting')
  const beats = counter(cluster, 'd0', 'heartbeatsDone')
  await until(cluster, () => counter(cluster, 'd0', 'heartbeatsDone') > beats)
  producer.abort(waiting.producer!.id)
  await untilServed(cluster, waiting)
  expect(waiting.consumer!.loadError).toBe(null)
  expect(counter(cluster, 'p0', 'handoffsUndelivered')).toBe(1)
  await settle(cluster)
})
