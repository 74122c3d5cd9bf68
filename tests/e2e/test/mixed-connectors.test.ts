/**
 * Engines that run different connectors, by their real factories in one simulated world: a consumer that is
 * sent to the wrong producer hears so in its handshake, and computes.
 */
import type { ConnectorFactory } from '@kvferry/connector-api'
import { Cluster } from '@kvferry/connector-api/testing'
import pull from '@kvferry/connector-pull'
import push from '@kvferry/connector-push'
import xavier from '@kvferry/connector-xavier'
import { expect, test } from 'vitest'

const factories: readonly ConnectorFactory[] = [pull, push, xavier]
const pairs = factories.flatMap((consumer) =>
  factories
    .filter((producer) => producer !== consumer)
    .map((producer) => ({ d: consumer.name, p: producer.name, consumer, producer })),
)

test.each(pairs)(
  '$d sent to $p: refused in the handshake, and computed',
  async ({ consumer, producer }) => {
    // `p0` runs what the consumer does, and says what such a consumer has to be told.
    const cluster = await Cluster.open({
      factory: consumer,
      producerCount: 2,
      engine: { p1: { factory: producer } },
    })
    const { clock } = cluster.world
    const job = { id: 'r', prompt: 1, promptTokenCount: 30, producer: 'p0' }
    const right = cluster.router.serve({ ...job, consumer: 'nobody' })
    expect(await clock.runUntil(() => right.producer?.status === 'ended', 1_000)).toBe(true)
    expect(right.handoff).not.toBe(null)
    const { host } = cluster.engine('p1')
    const handoff = {
      ...{ ...right.handoff, remote_engine_id: host.engineId },
      ...{ remote_incarnation: host.incarnation },
      remote_port: host.ranks[0]!.sideChannel.address.port,
    }
    const wrong = cluster.router.repeat({ ...right, handoff }, 'd0', 'wrong')
    expect(await clock.runUntil(() => wrong.outcome !== 'open', 60_000)).toBe(true)
    expect(wrong).toMatchObject({
      outcome: 'done',
      consumer: { loadError: 'ERR_KV_PEER_INCOMPATIBLE' },
    })
    const { logs } = cluster.engine('d0').host
    expect(logs.join()).toContain(`connector is ${consumer.name} here and another on p1`)
    cluster.auditor.assertClean()
  },
)
