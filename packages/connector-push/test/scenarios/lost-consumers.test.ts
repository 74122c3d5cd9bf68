/**
 * A consumer is lost while P still computes for it: P posts no WRITE to it any more, and its blocks are free
 * when their prefill has ended. A WRITE to a process that was killed fails by itself, so that what a kill
 * leaves says nothing of these rules; here WRITEs hang, as they do towards a host that the network has lost.
 * Each rule is also broken once, and then the same blocks stay.
 */
import type { Clock, ConnectorFactory } from '@kvferry/connector-api'
import { delegate, wrapFactory } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import { push } from '../../src/index.ts'
import { pushLimits } from '../../src/limits.ts'
import {
  agentCounters,
  counter,
  d0,
  open,
  p0,
  serve,
  settle,
  until,
  untilWriting,
} from '../fixtures/story.ts'

type Opened = Awaited<ReturnType<typeof open>>

const leaseDurationMs = 1_000
const options = { leaseDurationMs, transferDeadlineMs: 500 }
/** Twelve steps of P, and 30 of its blocks. */
const late = { id: 'late', prompt: 2, promptTokenCount: 120 }
/** Of a prompt of 30 tokens, as `serve` has it. */
const stuckBlockCount = 8

const openAs = (factory: ConnectorFactory, stepMs: number): Promise<Opened> =>
  open({
    engines: { options },
    engine: { p0: { factory, stepMs, stepTokenCountMax: 10 } },
  })

const stall = (cluster: Opened): void =>
  cluster.world.fabric.faults.stall(cluster.engine('d0').host.ranks[0]!.agent.name)

const untilRegistered = (cluster: Opened, count: number): Promise<void> =>
  until(cluster, () => counter(cluster, 'p0', 'registrationsAccepted') === count)

/** Connections end while a WRITE of another request hangs, so that the agent keeps this peer. */
async function loseConnection(factory: ConnectorFactory): Promise<Opened> {
  const cluster = await openAs(factory, 20)
  serve(cluster, { id: 'stuck' })
  await untilWriting(cluster)
  stall(cluster)
  const journey = serve(cluster, late)
  await untilRegistered(cluster, 2)
  const { faults } = cluster.world.channels
  faults.partition(p0, d0)
  faults.breakAssociations(p0, d0)
  const lostAtMs = cluster.world.clock.now()
  await until(cluster, () => journey.producer!.status === 'ended')
  await cluster.world.clock.advance(100)
  // No lease has ended yet.
  expect(cluster.world.clock.now() - lostAtMs).toBeLessThan(leaseDurationMs)
  return cluster
}

/** No connection ends, and nothing is heard any more; P computes for longer than it waits for a word. */
async function loseVoice(factory: ConnectorFactory): Promise<Opened> {
  const cluster = await openAs(factory, 400)
  const journey = serve(cluster, late)
  await untilRegistered(cluster, 1)
  stall(cluster)
  cluster.world.channels.faults.partition(p0, d0)
  await until(cluster, () => journey.producer!.status === 'ended')
  await cluster.world.clock.advance(100)
  return cluster
}

const deafToEnds = wrapFactory(push, {
  workerComponents: (components) => ({
    ...components,
    sideChannel: delegate(components.sideChannel, { onAssociationEnd: () => undefined }),
  }),
})

/** What rings after this long never rings. */
const without = (clock: Clock, silencedMs: number): Clock => ({
  now: () => clock.now(),
  after: (delayMs, callback) =>
    clock.after(delayMs, delayMs === silencedMs ? () => undefined : callback),
})

const patient = wrapFactory(push, {
  workerComponents: (components) => ({
    ...components,
    clock: without(components.clock, pushLimits.silentLeaseCountMax * leaseDurationMs),
  }),
})

test('its connection ends: only what a WRITE reads already stays', async () => {
  const cluster = await loseConnection(push)
  expect(cluster.engine('p0').heldBlockCount).toBe(stuckBlockCount)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(1)
  cluster.kill('d0')
  await settle(cluster)
})

test('a P that does not hear of the end posts its WRITE, and keeps those blocks, too', async () => {
  const cluster = await loseConnection(deafToEnds)
  expect(cluster.engine('p0').heldBlockCount).toBe(stuckBlockCount + 30)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(2)
})

test('it says nothing for two leases: nothing stays', async () => {
  const cluster = await loseVoice(push)
  expect(cluster.engine('p0').heldBlockCount).toBe(0)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(0)
  cluster.world.channels.faults.heal(p0, d0)
  cluster.world.fabric.faults.unstall(cluster.engine('d0').host.ranks[0]!.agent.name)
  await settle(cluster)
})

test('a P that waits for its word without end posts its WRITE, and keeps the blocks', async () => {
  const cluster = await loseVoice(patient)
  expect(cluster.engine('p0').heldBlockCount).toBe(30)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(1)
})
