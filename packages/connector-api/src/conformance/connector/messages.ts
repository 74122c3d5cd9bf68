/** C7: notifications and side-channel messages that are lost, repeated, late, forged or mangled. */
import { asEngineId, asIncarnation } from '../../ids.ts'
import { createSeededRandom } from '../../testing/seeded-random.ts'
import type { Cluster } from '../../testing/cluster/cluster.ts'
import type { Journey } from '../../testing/cluster/cluster-router.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'
import type { ConnectorContext } from './context.ts'
import { WireTap } from './wire-tap.ts'
import type { HeardMessage } from './wire-tap.ts'

const tokenSizeBytes = 16

/** The message with every run of 16 bytes in turn replaced, and cut, and prolonged. */
function* forgeries(message: Uint8Array): Iterable<Uint8Array> {
  const random = createSeededRandom(message.length)
  for (let at = 0; at + tokenSizeBytes <= message.length; at += 1) {
    const forged = message.slice()
    forged.set(random.bytes(tokenSizeBytes), at)
    yield forged
  }
  yield message.slice(0, message.length >> 1)
  yield new Uint8Array()
  yield random.bytes(message.length)
}

/** A job whose notification is on record and never arrived: somebody still waits for it. */
async function withheld(context: ConnectorContext, cluster: Cluster, taps: readonly WireTap[]) {
  const { notifications } = cluster.world.fabric.faults
  // Whatever the wire-up takes comes first.
  await context.serveWell(cluster)
  const heard = taps.map((tap) => tap.notifications.length)
  notifications.lossChance = 1
  for (const tap of taps) for (const kind of context.target.newsKinds) tap.muted.add(kind)
  const journey = context.serve(cluster)
  const isHeard = (): boolean => taps.some((tap, at) => tap.notifications.length > heard[at]!)
  await context.until(cluster, () => isHeard() && context.openTransfers(cluster) === 0)
  await cluster.world.clock.advance(100)
  notifications.lossChance = 0
  return { journey, genuine: taps.map((tap, at) => tap.notifications.slice(heard[at]!)) }
}

/** What an engine is waiting for with this job. */
const isAwaited = ({ producer, consumer }: Journey): boolean =>
  producer!.awaited.size > 0 || consumer?.status === 'loading'

/** Says all of it to both engines as an engine that nobody configured; answers don't matter. */
async function repeatAll(cluster: Cluster, messages: readonly HeardMessage[]): Promise<void> {
  const identity = { engineId: asEngineId('x0'), incarnation: asIncarnation('x0-1') }
  const channel = cluster.world.channels.open(identity)
  for (const name of ['p0', 'd0']) {
    const { address } = cluster.engine(name).host.ranks[0]!.sideChannel
    const connecting = channel.connect({ ...address, engineId: asEngineId(name) })
    const association = await cluster.world.clock.wait(connecting, 1_000)
    for (const { kind, body } of messages) {
      association.request(kind, body).catch(() => undefined)
      association.send(kind, body)
    }
  }
}

function mutations({ kind, body }: HeardMessage): HeardMessage[] {
  const random = createSeededRandom(body.length + kind.length)
  const bodies: Uint8Array[] = [new Uint8Array(), body.slice(0, -1), Uint8Array.of(...body, 0)]
  for (let count = 0; count < 24 && body.length > 0; count += 1) {
    const mutated = body.slice()
    mutated[random.integer(body.length)]! ^= 1 << random.integer(8)
    bodies.push(mutated, body.slice(0, random.integer(body.length)), random.bytes(body.length))
  }
  return [...bodies.map((mutated) => ({ kind, body: mutated })), { kind: `${kind}?`, body }]
}

export const messages: ConnectorGroupRuns<'C7'> = {
  async 'C7.1'(context) {
    const cluster = await context.open()
    cluster.world.fabric.faults.notifications.lossChance = 1
    for (let count = 0; count < 5; count += 1) context.serve(cluster)
    await context.settle(cluster, context.target.outcomeBoundMs + context.target.releaseBoundMs)
  },
  async 'C7.2'(context) {
    const cluster = await context.openSlow({ consumerCount: 2 })
    cluster.world.fabric.faults.notifications.duplicateChance = 1
    for (let index = 0; index < 8; index += 1) context.serve(cluster, { consumer: `d${index % 2}` })
    await context.settle(cluster)
    for (const journey of cluster.router.journeys) context.assertLoaded(journey)
  },
  async 'C7.3'(context) {
    const cluster = await context.openSlow({ consumerCount: 2, seed: 5 })
    const { channels, fabric } = cluster.world
    channels.faults.extraDelayMs = 60
    Object.assign(fabric.faults.notifications, { extraDelayMs: 300, duplicateChance: 0.5 })
    for (let index = 0; index < 12; index += 1) {
      context.serve(cluster, { consumer: `d${index % 2}` })
    }
    await context.settle(cluster)
    for (const journey of cluster.router.journeys) context.assertLoaded(journey)
  },
  async 'C7.4'(context) {
    const taps = [new WireTap(), new WireTap()]
    const engine = { p0: taps[0]!.options, d0: taps[1]!.options }
    const cluster = await context.open({ engine })
    const { journey, genuine } = await withheld(context, cluster, taps)
    assert.ok(isAwaited(journey), 'nobody missed the notification')
    const agents = ['p0', 'd0'].map((name) => cluster.engine(name).host.ranks[0]!.agent.name)
    const say = (at: number, message: Uint8Array): void =>
      cluster.world.fabric.forge(agents[1 - at]!, { from: agents[at]!, message })
    for (const [at, list] of genuine.entries()) {
      for (const message of list) for (const forged of forgeries(message)) say(at, forged)
    }
    await cluster.world.clock.advance(1_000)
    assert.ok(isAwaited(journey), 'a forged notification was believed')
    // The control: the true one is.
    for (const [at, list] of genuine.entries()) for (const message of list) say(at, message)
    await context.until(cluster, () => !isAwaited(journey), 1_000)
    await context.settle(cluster)
  },
  async 'C7.5'(context) {
    const tap = new WireTap()
    const cluster = await context.open({ engine: { d0: tap.options } })
    await context.serveWell(cluster)
    const [name, agent] = ['d0', cluster.engine('d0').host.ranks[0]!.agent.name]
    const former = tap.notifications.slice()
    cluster.kill(name)
    await cluster.start(name)
    await context.serveWell(cluster)
    const journey = await context.handoff(cluster)
    const { fabric, clock } = cluster.world
    const producer = cluster.engine('p0').host.ranks[0]!.agent.name
    const encode = (text: string): Uint8Array => new TextEncoder().encode(text)
    const [before, after] = [cluster.router.journeys[0]!, journey].map(({ producer: request }) =>
      encode(request!.id),
    )
    for (const message of former) {
      fabric.forge(producer, { from: agent, message: replaceBytes(message, before!, after!) })
    }
    await clock.advance(1_000)
    assert.ok(isAwaited(journey), 'a notification of a dead consumer was believed')
    await context.settle(cluster, context.target.releaseBoundMs)
  },
  async 'C7.6'(context) {
    const taps = [new WireTap(), new WireTap()]
    const engine = { p0: taps[0]!.options, d0: taps[1]!.options }
    const cluster = await context.openSlow({ engine })
    await context.serveWell(cluster)
    const journey = context.serve(cluster)
    await context.untilTransferring(cluster)
    // Until it is known whose the lease is.
    await cluster.world.clock.advance(1)
    await repeatAll(
      cluster,
      taps.flatMap((tap) => tap.messages),
    )
    await context.settle(cluster)
    context.assertLoaded(journey)
  },
  async 'C7.7'(context) {
    const taps = [new WireTap(), new WireTap()]
    const engine = { p0: taps[0]!.options, d0: taps[1]!.options }
    const cluster = await context.open({ engine })
    await context.serveWell(cluster)
    const heard = taps.flatMap((tap) => tap.messages)
    await repeatAll(cluster, heard.slice(0, 12).flatMap(mutations))
    await cluster.world.clock.advance(1_000)
    cluster.auditor.assertClean()
    await context.serveWell(cluster)
    await context.settle(cluster)
  },
}

/** Where a message holds the one id, it shall hold the other (same length), if it does. */
function replaceBytes(message: Uint8Array, before: Uint8Array, after: Uint8Array): Uint8Array {
  const replaced = message.slice()
  for (let at = 0; at + before.length <= message.length; at += 1) {
    const isThere = before.every((byte, index) => message[at + index] === byte)
    if (isThere && before.length === after.length) replaced.set(after, at)
  }
  return replaced
}
