/** C2: nothing goes wrong. Bytes, lengths, local hits, both directions, many at once, little room. */
import type { Cluster } from '../../testing/cluster/cluster.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

function assertPreempted({ auditor }: Cluster): void {
  const isPreempted = auditor.transcript.some((line) => line.includes('is preempted'))
  assert.ok(isPreempted, 'nothing was preempted')
}

export const straightPath: ConnectorGroupRuns<'C2'> = {
  async 'C2.1'(context) {
    const cluster = await context.open()
    for (const promptTokenCount of [1, 3, 4, 5, 15, 16, 17, 64, 65, 130]) {
      await context.serveWell(cluster, { promptTokenCount })
    }
    await context.settle(cluster)
  },
  async 'C2.2'(context) {
    const cluster = await context.open({ engines: { freeMode: 'cached' } })
    await context.serveWell(cluster, { prompt: 1, promptTokenCount: 16 })
    const { consumer } = await context.serveWell(cluster, { prompt: 1, promptTokenCount: 40 })
    assert.equal(consumer!.hitTokenCount, 16)
    assert.equal(consumer!.externalTokenCount, 24)
    await context.settle(cluster)
  },
  async 'C2.3'(context) {
    const cluster = await context.openSlow({ producerCount: 2, consumerCount: 3 })
    const journeys = Array.from({ length: 30 }, (_, index) =>
      context.serve(cluster, {
        promptTokenCount: 1 + ((index * 7) % 40),
        producer: `p${index % 2}`,
        consumer: `d${index % 3}`,
      }),
    )
    await context.settle(cluster)
    for (const journey of journeys) context.assertLoaded(journey)
  },
  async 'C2.4'(context) {
    const cluster = await context.openSlow()
    const journeys = Array.from({ length: 8 }, (_, index) => {
      const [producer, consumer] = index % 2 === 0 ? ['p0', 'd0'] : ['d0', 'p0']
      return context.serve(cluster, { producer: producer!, consumer: consumer! })
    })
    await context.settle(cluster)
    for (const journey of journeys) context.assertLoaded(journey)
  },
  async 'C2.5'(context) {
    const cluster = await context.open({ engines: { stepTokenCountMax: 8 } })
    const journeys = [33, 40, 61].map((promptTokenCount) =>
      context.serve(cluster, { promptTokenCount }),
    )
    await context.settle(cluster)
    for (const journey of journeys) context.assertLoaded(journey)
  },
  async 'C2.6'(context) {
    const engine = { p0: { blockCount: 14, stepTokenCountMax: 8 } }
    const cluster = await context.open({ engine })
    const journeys = [40, 40, 40].map((promptTokenCount) =>
      // The consumer comes late: meanwhile the first one's blocks are held.
      context.serve(cluster, { promptTokenCount, hopMs: 60 }),
    )
    await context.settle(cluster)
    for (const journey of journeys) context.assertLoaded(journey)
    assertPreempted(cluster)
    // One that generates is preempted after its prompt: a transfer of that may be under way, and slow.
    const slow = await context.openSlow({ engine: { p0: { blockCount: 16, stepMs: 4 } } })
    const generating = [30, 30].map((promptTokenCount) =>
      context.serve(slow, { promptTokenCount, producerOutputTokenCount: 6 }),
    )
    await context.settle(slow)
    for (const journey of generating) context.assertLoaded(journey)
    assertPreempted(slow)
  },
  async 'C2.7'(context) {
    const cluster = await context.openSlow({ engine: { d0: { blockCount: 10 } } })
    const journeys = [30, 33, 20, 28].map((promptTokenCount) =>
      context.serve(cluster, { promptTokenCount }),
    )
    await context.settle(cluster)
    for (const journey of journeys) context.assertLoaded(journey)
  },
  async 'C2.8'(context) {
    const cluster = await context.open()
    const { consumer } = context.consume(cluster, null)
    await context.settle(cluster)
    assert.equal(consumer!.externalTokenCount, 0)
    assert.equal(consumer!.returnedParams, null)
    assert.equal(cluster.engine('d0').host.ranks[0]!.agent.counters().transfersPosted, 0)
  },
  async 'C2.9'(context) {
    const engines = { freeMode: 'cached', blockCount: 24, stepTokenCountMax: 16 } as const
    const cluster = await context.openSlow({ producerCount: 2, consumerCount: 2, engines })
    for (let index = 0; index < 24; index += 1) {
      context.serve(cluster, {
        prompt: index % 7,
        promptTokenCount: 1 + ((index * 7) % 40),
        outputTokenCount: 4,
        producer: `p${index % 2}`,
        consumer: `d${(index >> 1) % 2}`,
      })
    }
    await context.settle(cluster)
    for (const { outcome } of cluster.router.journeys) assert.equal(outcome, 'done')
  },
}
