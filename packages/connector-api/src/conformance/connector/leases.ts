/** C4: how long a producer's blocks live, and what a consumer may rely on. */
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

/** "At once" of an engine that steps. */
const soonMs = 1_000

export const leases: ConnectorGroupRuns<'C4'> = {
  async 'C4.1'(context) {
    const cluster = await context.open()
    const journey = context.serve(cluster, { hopMs: 0.8 * context.target.leaseDurationMs })
    await context.settle(cluster)
    context.assertLoaded(journey)
  },
  async 'C4.2'(context) {
    const { leaseDurationMs, releaseBoundMs } = context.target
    const cluster = await context.open()
    await context.handoff(cluster)
    const producer = cluster.engine('p0')
    await cluster.world.clock.advance(0.9 * leaseDurationMs)
    assert.ok(producer.heldBlockCount > 0, 'the blocks were freed under a lease')
    await cluster.world.clock.advance(releaseBoundMs - 0.9 * leaseDurationMs)
    assert.equal(producer.heldBlockCount, 0, 'the blocks are still held')
    await context.settle(cluster)
  },
  async 'C4.3'(context) {
    const cluster = await context.open()
    const journey = await context.serveWell(cluster)
    await cluster.world.clock.advance(soonMs)
    assert.equal(cluster.engine('p0').heldBlockCount, 0, 'the producer still holds its blocks')
    assert.equal(journey.producer!.awaited.size, 0)
    await context.settle(cluster)
  },
  async 'C4.4'(context) {
    const cluster = await context.open()
    const journey = context.serve(cluster, { hopMs: 1.5 * context.target.leaseDurationMs })
    await cluster.world.clock.advance(1.4 * context.target.leaseDurationMs)
    // Others have the blocks by now.
    for (let count = 0; count < 6; count += 1) context.serve(cluster)
    await context.settle(cluster)
    context.assertNotLoaded(journey)
  },
  async 'C4.5'(context) {
    const cluster = await context.open({ engine: { d0: { blockCount: 16 } } })
    // It has the room, and keeps it for a while.
    context.consume(cluster, null, { promptTokenCount: 40, outputTokenCount: 20 })
    await cluster.world.clock.advance(1)
    const journey = context.serve(cluster)
    await context.until(cluster, () => journey.consumer !== null)
    assert.equal(journey.consumer!.status, 'waiting')
    cluster.engine('d0').abort(journey.consumer!.id)
    await cluster.world.clock.advance(soonMs)
    assert.equal(cluster.engine('p0').heldBlockCount, 0, 'the producer waits for nobody')
    await context.settle(cluster)
  },
  async 'C4.6'(context) {
    const cluster = await context.open()
    // Peers know one another, so that only the transfer is slow.
    await context.serveWell(cluster)
    const stalled = ['p0', 'd0'].map((name) => cluster.engine(name).host.ranks[0]!.agent.name)
    for (const name of stalled) cluster.world.fabric.faults.stall(name)
    const journey = context.serve(cluster)
    await cluster.world.clock.advance(0.6 * context.target.leaseDurationMs)
    for (const name of stalled) cluster.world.fabric.faults.unstall(name)
    await context.settle(cluster)
    context.assertLoaded(journey)
  },
  async 'C4.7'(context) {
    const cluster = await context.open()
    const { handoff, producer, job } = await context.handoff(cluster)
    const engine = cluster.engine('p0')
    assert.ok(engine.heldBlockCount > 0, 'the producer keeps nothing')
    // Twice: an engine that says it again says nothing new.
    for (let count = 0; count < 2; count += 1) engine.abort(producer!.id)
    // The hook is optional: without it the lease's end does the same, later.
    const isTold = engine.host.scheduler.handoffUndelivered !== undefined
    await cluster.world.clock.advance(isTold ? soonMs : context.target.releaseBoundMs)
    assert.equal(engine.heldBlockCount, 0, 'the producer waits for nobody')
    // Others have the blocks by now, and it had been delivered after all.
    for (let count = 0; count < 6; count += 1) context.serve(cluster)
    const late = context.consume(cluster, handoff, { prompt: job.prompt })
    await context.settle(cluster)
    context.assertNotLoaded(late)
  },
  async 'C4.8'(context) {
    const cluster = await context.openSlow()
    // Peers know one another, so that its claim has arrived when its bytes are on their way.
    await context.serveWell(cluster)
    const journey = context.serve(cluster)
    await context.until(cluster, () => journey.producer?.status === 'ended')
    await context.untilTransferring(cluster)
    cluster.engine('p0').abort(journey.producer!.id)
    await context.settle(cluster)
    context.assertLoaded(journey)
  },
}
