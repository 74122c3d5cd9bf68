/**
 * Accidents of vLLM's push connector, by its audit's names and its numbers. Each test's first line says what
 * happens there. That each may come at any moment, and either engine die at any, is for the suite (C5.1,
 * C5.2, C6.3, C6.4, C6.7 to C6.9), the simulation and the explorer.
 */
import type { TransferAgent } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import {
  agentCounters,
  counter,
  d0,
  open,
  p0,
  serve,
  settle,
  until,
  untilServed,
  untilWriting,
} from '../fixtures/story.ts'

/** A prefill that does not end with its first step. */
const twoSteps = { stepMs: 50, stepTokenCountMax: 16 }

test('C1, #46283, #46289: the consumer gives up while it is written to', async () => {
  // Upstream: there is no message for it; P writes into blocks of another request, or D's are lost.
  const cluster = await open()
  const journey = serve(cluster)
  await untilWriting(cluster)
  cluster.engine('d0').abort(journey.consumer!.id)
  expect(journey.consumer!.awaited).toEqual(new Set(['received']))
  await until(cluster, () => journey.consumer!.awaited.size === 0, 1_000)
  expect(agentCounters(cluster, 'p0').transfersOpen).toBe(0)
  await settle(cluster)
  expect(counter(cluster, 'd0', 'loadsAborted')).toBe(1)
})

test('C1 before the prefill has ended: nothing is written, and both get their blocks back', async () => {
  // Upstream: the registration stays, and P writes when it has computed.
  const cluster = await open({ engines: twoSteps })
  const journey = serve(cluster)
  await until(cluster, () => counter(cluster, 'd0', 'loadsStarted') === 1)
  cluster.engine('d0').abort(journey.consumer!.id)
  await settle(cluster)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(0)
})

test('C2, #50754: a WRITE that fails is told to the consumer at once (56)', async () => {
  // Upstream: P remembers it until its lease ends, and D waits for ever.
  const cluster = await open()
  cluster.world.fabric.faults.failNextPosts(cluster.engine('p0').host.ranks[0]!.agent.name, 1)
  const journey = serve(cluster)
  await untilServed(cluster, journey, 1_000)
  expect(journey.consumer!.loadError).toBe('ERR_KV_TRANSFER_FAILED')
  await settle(cluster, 1_000)
})

test('C2: the producer’s client is gone: the consumer computes', async () => {
  // Upstream: nothing is told, and D waits for ever.
  const cluster = await open({ engines: twoSteps })
  const journey = serve(cluster)
  await until(cluster, () => counter(cluster, 'd0', 'loadsStarted') === 1)
  cluster.engine('p0').abort(journey.producer!.id)
  await untilServed(cluster, journey, 1_000)
  expect(journey.consumer!.loadError).toBe('ERR_KV_CLOSED')
  await settle(cluster)
})

test('L1: the producer dies while the consumer waits', async () => {
  // Upstream: D never looks whether P lives.
  const cluster = await open({ engines: { stepMs: 50 } })
  const journey = serve(cluster)
  await until(cluster, () => counter(cluster, 'd0', 'loadsStarted') === 1)
  cluster.kill('p0')
  await untilServed(cluster, journey, 1_000)
  expect(journey.consumer!.loadError).toBe('ERR_KV_PEER_UNAVAILABLE')
  await settle(cluster)
})

test('one head on every rank, as with MLA: every rank of the consumer is written, and other TP sizes are refused by name (60)', async () => {
  // Upstream: P writes its replicated cache to every rank of D, whatever the TP sizes.
  const cluster = await open({ engines: { tpSize: 2, layout: 'LBNHC' } })
  const journey = serve(cluster)
  await until(cluster, () => journey.outcome === 'done')
  expect(journey.consumer!.loadError).toBe(null)
  const posted = cluster.engine('p0').host.ranks.map(({ agent }) => agent.counters().transfersDone)
  expect(posted).toEqual([1, 1])
  const odd = await open({ engine: { d0: { tpSize: 2, kvHeadCount: 2 } } })
  const refused = serve(odd)
  await until(odd, () => refused.outcome === 'done')
  expect(refused.consumer!.loadError).toBe('ERR_KV_PEER_INCOMPATIBLE')
  const { logs } = odd.engine('d0').host
  expect(logs.join()).toContain('kvHeadCount is 1 on each of 2 ranks here and 1 on p0')
})

test('S1: an engine that waits for long is not forgotten by the other (58)', async () => {
  // Upstream: an engine that was only waited on counted as stale, and was removed while D waited.
  // Longer than a registration lives without a heartbeat.
  const cluster = await open({ engine: { p0: { stepMs: 10_000, stepTokenCountMax: 4 } } })
  const journey = serve(cluster)
  await untilServed(cluster, journey, 400_000)
  expect(journey.consumer!.loadError).toBe(null)
  expect(journey.consumer!.externalTokenCount).toBe(30)
  await settle(cluster, 400_000)
})

test('S2: a silent producer does not hold up the others (53)', async () => {
  // Upstream: one thread makes all handshakes, one after the other.
  const cluster = await open({ producerCount: 2 })
  cluster.world.channels.faults.stop(p0)
  const [waiting, served] = [
    serve(cluster, { id: 'silent' }),
    serve(cluster, { id: 'served', prompt: 2, producer: 'p1' }),
  ]
  await untilServed(cluster, served, 200)
  expect(served.consumer!.loadError).toBe(null)
  expect(waiting.outcome).toBe('open')
  cluster.world.channels.faults.resume(p0)
  await settle(cluster)
})

test('X1, #56317: many transfers at once, each told exactly once on both sides (56)', async () => {
  // Upstream: a race over partial sets of handles reported some twice.
  const cluster = await open({ engines: { tpSize: 2 } })
  const ids = ['a', 'b', 'c', 'd', 'e', 'f']
  const journeys = ids.map((id, index) =>
    serve(cluster, { id, prompt: index, promptTokenCount: 13 + index }),
  )
  await until(cluster, () => journeys.every(({ outcome }) => outcome === 'done'))
  await settle(cluster)
  const sent = cluster.engine('p0').host.outputs.flatMap((output) => output.sent)
  const received = cluster.engine('d0').host.outputs.flatMap((output) => output.received)
  expect(sent.toSorted()).toEqual(ids.map((id) => `p0/${id}`))
  expect(received.toSorted()).toEqual(ids.map((id) => `d0/${id}`))
})

test('#58188: one WRITE of six fails: its load alone does, and the success of the others is told (56)', async () => {
  // Upstream: since failures are remembered, successes beside them are lost, and their requests hang.
  const cluster = await open()
  const ids = ['a', 'b', 'c', 'd', 'e', 'f']
  const journeys = ids.map((id, prompt) => serve(cluster, { id, prompt }))
  cluster.world.fabric.faults.failNextPosts(cluster.engine('p0').host.ranks[0]!.agent.name, 1)
  await until(cluster, () => journeys.every(({ outcome }) => outcome === 'done'), 1_000)
  await settle(cluster, 1_000)
  const { transfersFailed, transfersDone } = agentCounters(cluster, 'p0')
  expect([transfersFailed, transfersDone]).toEqual([1, 5])
  const errors = journeys.map(({ consumer }) => consumer!.loadError)
  expect(errors.filter((code) => code === 'ERR_KV_TRANSFER_FAILED')).toHaveLength(1)
  expect(errors.filter((code) => code === null)).toHaveLength(5)
  const sent = cluster.engine('p0').host.outputs.flatMap((output) => output.sent)
  const received = cluster.engine('d0').host.outputs.flatMap((output) => output.received)
  expect(sent.toSorted()).toEqual(ids.map((id) => `p0/${id}`))
  expect(received.toSorted()).toEqual(ids.map((id) => `d0/${id}`))
})

test('O1, #57722: the producer’s metrics count what it has written', async () => {
  // Upstream: transfers of push are missing in P's metrics.
  const cluster = await open()
  await untilServed(cluster, serve(cluster))
  const { metrics } = cluster.engine('p0').host
  expect(metrics.get('kv_transfer_bytes_total write')).toBeGreaterThan(0)
  expect(metrics.get('kv_transfer_duration_seconds')).toBe(1)
})

test('#55470: the handshake takes longer than the lease: nothing is written any more', async () => {
  // Upstream: the deferred WRITE starts after P has given the blocks away: wrong KV, HTTP 200.
  const options = { leaseDurationMs: 2_000, handshakeTimeoutMs: 30_000 }
  const cluster = await open({ engines: { options } })
  cluster.world.channels.faults.partition(p0, d0)
  const journey = serve(cluster)
  await until(cluster, () => cluster.engine('p0').heldBlockCount > 0)
  await until(cluster, () => cluster.engine('p0').heldBlockCount === 0, 5_000)
  cluster.world.channels.faults.heal(p0, d0)
  await untilServed(cluster, journey)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(0)
  expect(counter(cluster, 'p0', 'leasesExpired')).toBe(1)
  await settle(cluster)
})

test('C3, #48758: what the consumer has cached is the prompt’s beginning; its end is written (61)', async () => {
  // Upstream: P cut the wrong end of its blocks, and D read another part of the prompt.
  const cluster = await open({ engines: { freeMode: 'cached' } })
  await untilServed(cluster, serve(cluster, { promptTokenCount: 16 }))
  const journey = serve(cluster, { id: 'again', promptTokenCount: 30 })
  await untilServed(cluster, journey)
  // The auditor has compared every byte.
  expect(journey.consumer!.hitTokenCount).toBe(16)
  expect(journey.consumer!.externalTokenCount).toBe(14)
  expect(journey.consumer!.loadError).toBe(null)
  await settle(cluster)
})

test('S4, #49345: two engines shake hands once, not for each request, and D loads nothing of P’s agent', async () => {
  // Upstream: D loaded all of P’s metadata only to send it a notification.
  const loadedBy: string[] = []
  const wrapAgent = (agent: TransferAgent): TransferAgent => ({
    ...agent,
    addPeer(options) {
      loadedBy.push(agent.name.slice(0, 2))
      return agent.addPeer(options)
    },
  })
  const cluster = await open({ engines: { wrapAgent } })
  for (const id of ['a', 'b', 'c']) await untilServed(cluster, serve(cluster, { id }))
  expect(counter(cluster, 'd0', 'handshakesDone')).toBe(1)
  expect(counter(cluster, 'p0', 'handshakesDone')).toBeLessThanOrEqual(1)
  // P must know where it writes.
  expect(loadedBy).toEqual(['p0'])
  await settle(cluster)
})

test('57: registrations are withdrawn all at once, none, and one that nobody knows', async () => {
  // Upstream: pending registrations are dropped by P’s request id, so that those keyed by D’s stay.
  const cluster = await open({ engines: twoSteps })
  const journeys = ['a', 'b', 'c', 'd'].map((id, prompt) => serve(cluster, { id, prompt }))
  await until(cluster, () => counter(cluster, 'd0', 'loadsStarted') === journeys.length)
  cluster.engine('d0').abort('nobody')
  for (const { consumer } of journeys) cluster.engine('d0').abort(consumer!.id)
  await settle(cluster)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(0)
  expect(counter(cluster, 'd0', 'loadsAborted')).toBe(journeys.length)
  const later = serve(cluster, { id: 'later', prompt: 9 })
  await untilServed(cluster, later)
  expect(later.consumer!.loadError).toBe(null)
  await settle(cluster)
})
