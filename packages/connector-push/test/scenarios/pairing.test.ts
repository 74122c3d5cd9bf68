/**
 * Prefills and registrations that find each other, or don't. Each test's first line says what vLLM's push
 * connector does.
 */
import { ConnectorError, WIRE_VERSION } from '@kvferry/connector-api'
import { encodeRegistration, encodeWithdraw, kindOf } from '@kvferry/connector-api/remote-writes'
import { expect, onTestFinished, test, vi } from 'vitest'
import { pushLimits } from '../../src/limits.ts'
import { RendezvousBook } from '../../src/rendezvous-book.ts'
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

test('the registration first, and the prefill first (49, 50)', async () => {
  // Upstream: the same two tables, matched by request ids with a suffix cut off where transfer_id is missing.
  const cluster = await open({ engines: { stepMs: 20 } })
  const early = serve(cluster, { id: 'early', hopMs: 0 })
  const late = serve(cluster, { id: 'late', prompt: 2, hopMs: 500 })
  await until(cluster, () => early.outcome === 'done' && late.outcome === 'done')
  for (const { consumer } of [early, late]) expect(consumer!.loadError).toBe(null)
  await settle(cluster)
})

test('multi-prompt, #51505: two prompts of one request id have transfers of their own, and never pair (50)', async () => {
  // Upstream: #51505; pairs by request id can cross, or D crashes.
  const cluster = await open()
  const journeys = [1, 2, 3].map((prompt) => serve(cluster, { id: 'same', prompt }))
  await until(cluster, () => journeys.every(({ outcome }) => outcome === 'done'))
  // The auditor has compared every byte that was loaded.
  for (const { consumer } of journeys) expect(consumer!.loadError).toBe(null)
  await settle(cluster)
})

test('multi-prompt, #51505: one transfer for several requests of a consumer: one is loaded, the others are computed (52)', async () => {
  // Upstream: #51505 (GHSA-6vh8-5j8f-m4vf); a list prompt with kv_transfer_params crashes D.
  const cluster = await open()
  const first = serve(cluster)
  await until(cluster, () => first.consumer !== null)
  const again = [1, 2].map((count) => cluster.router.repeat(first, 'd0', `again-${count}`))
  await until(cluster, () => [first, ...again].every(({ outcome }) => outcome === 'done'))
  const good = [first, ...again].filter(({ consumer }) => consumer!.loadError === null)
  expect(good).toHaveLength(1)
  await settle(cluster)
})

test('an orphan registration: its prefill never comes; it ends at its deadline, and leaves P’s table (44)', async () => {
  // Upstream: it stays in P's table for ever, and D waits for ever; its watchdog only logs.
  const opened = vi.spyOn(RendezvousBook.prototype, 'open')
  onTestFinished(() => opened.mockRestore())
  const cluster = await open({ engines: { options: { leaseDurationMs: 2_000 } } })
  const [model, at] = [serve(cluster), cluster.world.clock.now()]
  await untilServed(cluster, model)
  const orphan = { ...model, handoff: { ...model.handoff, transfer_id: 'xfer-nobody' } }
  const journey = cluster.router.repeat(orphan, 'd0', 'orphan')
  journey.consumer!.promptDigest.fill(7)
  await untilServed(cluster, journey)
  expect(cluster.world.clock.now() - at).toBeLessThan(5_000)
  await settle(cluster)
  const [book] = opened.mock.contexts as RendezvousBook[]
  expect(new Set(opened.mock.contexts)).toEqual(new Set([book]))
  expect(book!.find('xfer-nobody')).not.toBe(undefined)
  await cluster.world.clock.advance(pushLimits.rendezvousRetentionMs)
  expect(book!.size).toBe(0)
})

test('#53095: a consumer without room keeps the blocks by its heartbeats, beyond a lease (54)', async () => {
  // Upstream: heartbeats carry the router's id, which P does not know: every lease ends after 30 s.
  const options = { leaseDurationMs: 2_000, transferDeadlineMs: 500 }
  const engine = { d0: { blockCount: 8, stepMs: 400 } }
  const cluster = await open({ engines: { options }, engine })
  // It has all of the consumer's blocks for four seconds.
  const local = { id: 'd0/local', prompt: 9, promptTokenCount: 20, outputTokenCount: 10 }
  cluster.engine('d0').submit({ ...local, params: null })
  const journey = serve(cluster)
  await untilServed(cluster, journey)
  expect(journey.consumer!.loadError).toBe(null)
  expect(journey.consumer!.externalTokenCount).toBe(30)
  expect(counter(cluster, 'p0', 'leasesExpired')).toBe(0)
  await settle(cluster)
})

test('the consumer needs nothing: the producer’s blocks are free at once', async () => {
  // Upstream: D tells nothing, and P keeps them until its lease ends.
  const cluster = await open({ engines: { options: { recomputeThreshold: 64 } } })
  const journey = serve(cluster)
  await untilServed(cluster, journey)
  expect(journey.consumer!.externalTokenCount).toBe(0)
  await until(cluster, () => cluster.engine('p0').heldBlockCount === 0, 100)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(0)
  await settle(cluster)
})

test('the lease ends during a WRITE: the blocks stay, and the bytes are right', async () => {
  // Upstream: P frees blocks that the NIC still reads, and D decodes on a mix, without an error.
  const options = { leaseDurationMs: 2_000, transferDeadlineMs: 500 }
  const cluster = await open({ engines: { options } })
  const journey = serve(cluster)
  await untilWriting(cluster)
  const { name } = cluster.engine('d0').host.ranks[0]!.agent
  cluster.world.fabric.faults.stall(name)
  await cluster.world.clock.advance(3_500)
  expect(cluster.engine('p0').heldBlockCount).toBeGreaterThan(0)
  cluster.world.fabric.faults.unstall(name)
  await untilServed(cluster, journey)
  await settle(cluster)
})

test('a handshake that fails is a failed load, for the engine’s policy (48)', async () => {
  // Upstream: on P the match is lost, and D waits for ever.
  const cluster = await open({ engine: { p0: { caches: { dtype: 'float8' } } } })
  const journey = serve(cluster)
  await untilServed(cluster, journey)
  expect(journey.consumer!.loadError).toBe('ERR_KV_PEER_INCOMPATIBLE')
  await settle(cluster)
})

test('a stranger’s registration, and its withdrawal of another’s, do nothing', async () => {
  // Upstream: a notification says by itself who sends it, and anybody's registration is taken.
  const cluster = await open({ consumerCount: 2 })
  const journey = serve(cluster)
  await untilWriting(cluster)
  const { port, host } = cluster.engine('p0').host.ranks[0]!.sideChannel.address
  const { sideChannel } = cluster.engine('d1').host.ranks[0]!
  const { clock } = cluster.world
  const association = await clock.wait(sideChannel.connect({ host, port, engineId: p0 }), 100)
  const { transfer_id: transferId } = journey.handoff as { transfer_id: string }
  const of = { rank: 0, loadId: 0, transferId }
  const registration = encodeRegistration({
    ...{
      ...of,
      firstToken: 0,
      tokenCount: 30,
      blockIds: Uint32Array.from({ length: 8 }, (_, id) => id),
    },
    promptDigest: journey.consumer!.promptDigest,
  })
  const refused = association.request(kindOf('push', 'register', 0), registration)
  expect((await clock.wait(refused, 100))[1]).toBe(0)
  await clock.wait(association.request(kindOf('push', 'withdraw', 0), encodeWithdraw(of)), 100)
  await untilServed(cluster, journey)
  expect(journey.consumer!.loadError).toBe(null)
  expect(journey.consumerEngine!.host.engineId).toBe(d0)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(1)
  await settle(cluster)
})

test('a malformed registration is refused by name, and the next one is served (51)', async () => {
  // Upstream: it is dropped, since an exception would have ended the thread.
  const cluster = await open()
  await untilServed(cluster, serve(cluster))
  const { port, host } = cluster.engine('p0').host.ranks[0]!.sideChannel.address
  const { sideChannel } = cluster.engine('d0').host.ranks[0]!
  const { clock } = cluster.world
  const association = await clock.wait(sideChannel.connect({ host, port, engineId: p0 }), 100)
  const answer = association
    .request(kindOf('push', 'register', 0), Uint8Array.of(WIRE_VERSION, 2, 3))
    .catch((error: unknown) => error)
  const error = await clock.wait(answer, 100)
  expect(ConnectorError.isInstance(error) && error.code).toBe('ERR_KV_MESSAGE_INVALID')
  const next = serve(cluster, { id: 'next', prompt: 2 })
  await untilServed(cluster, next)
  expect(next.consumer!.loadError).toBe(null)
})

test('the answer reached nobody: blocks for which nobody has registered are free at once, others stay', async () => {
  // Upstream: they wait for their registration, up to its timeout.
  const cluster = await open()
  await untilServed(cluster, serve(cluster, { id: 'first', prompt: 9 }))
  const lost = serve(cluster, { hopMs: 1_000 })
  const producer = cluster.engine('p0')
  await until(cluster, () => lost.producer?.status === 'ended')
  producer.abort(lost.producer!.id)
  await cluster.world.clock.advance(100)
  expect(producer.heldBlockCount).toBe(0)
  expect(counter(cluster, 'p0', 'handoffsUndelivered')).toBe(1)
  // Its consumer comes after all: it is refused, and computes.
  await untilServed(cluster, lost)
  expect(lost.consumer!.loadError).toBe('ERR_KV_LEASE_EXPIRED')

  const taken = serve(cluster, { id: 'r2', prompt: 2 })
  await untilWriting(cluster)
  await until(cluster, () => taken.producer?.status === 'ended')
  producer.abort(taken.producer!.id)
  await untilServed(cluster, taken)
  expect(taken.consumer!.loadError).toBe(null)
  expect(counter(cluster, 'p0', 'handoffsUndelivered')).toBe(1)
  await settle(cluster)
})
