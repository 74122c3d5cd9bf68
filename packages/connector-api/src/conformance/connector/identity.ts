/** C8: lives, and what two engines must agree on. */
import type { KvCacheLayout } from '../../kv-memory.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

const otherFacts: readonly Partial<KvCacheLayout>[] = [
  { model: 'other' },
  { dtype: 'float8' },
  // No mere other order of tokens and heads, which may be mapped.
  { layout: 'BLHNC' },
  { kvHeadCount: 2 },
  { headSize: 8 },
]

export const identity: ConnectorGroupRuns<'C8'> = {
  async 'C8.1'(context) {
    const cluster = await context.open()
    const { handoff, job } = await context.handoff(cluster)
    cluster.kill('p0')
    await cluster.start('p0')
    // An id comes again, as clients' ids do; the same blocks hold other bytes now.
    for (const id of [job.id, 'other']) {
      context.serve(cluster, { id, consumer: 'nobody', promptTokenCount: job.promptTokenCount })
    }
    await cluster.world.clock.advance(50)
    const { prompt, promptTokenCount } = job
    const journey = context.consume(cluster, handoff, { prompt, promptTokenCount })
    await context.settle(cluster)
    context.assertNotLoaded(journey)
  },
  async 'C8.2'(context) {
    for (const caches of otherFacts) {
      const cluster = await context.open({ engine: { d0: { caches } } })
      const journey = context.serve(cluster)
      await context.settle(cluster)
      context.assertNotLoaded(journey)
      const { loadError, externalTokenCount } = journey.consumer!
      const what = Object.keys(caches).join()
      const isNamed = externalTokenCount === 0 || loadError === 'ERR_KV_PEER_INCOMPATIBLE'
      assert.ok(isNamed, `another ${what}: ${loadError}`)
    }
  },
  async 'C8.3'(context) {
    const cluster = await context.openSlow()
    await context.serveWell(cluster)
    for (let count = 0; count < 3; count += 1) context.serve(cluster)
    await context.untilTransferring(cluster)
    cluster.kill('d0')
    await cluster.start('d0')
    const next = context.serve(cluster)
    await context.settle(cluster, context.target.releaseBoundMs)
    context.assertLoaded(next)
  },
  async 'C8.4'(context) {
    const cluster = await context.open()
    const { handoff, job } = await context.handoff(cluster)
    const { prompt, promptTokenCount } = job
    const other = context.consume(cluster, handoff, { prompt: prompt + 1, promptTokenCount })
    await context.settle(cluster, context.target.releaseBoundMs)
    context.assertNotLoaded(other)
  },
}
