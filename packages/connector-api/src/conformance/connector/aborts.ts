/** C5: requests that are given up, at every point. */
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

export const aborts: ConnectorGroupRuns<'C5'> = {
  async 'C5.1'(context) {
    await context.atEveryMoment((cluster, { consumer }) => {
      if (consumer !== null) cluster.engine('d0').abort(consumer.id)
    })
  },
  async 'C5.2'(context) {
    await context.atEveryMoment((cluster, { producer }) => {
      if (producer !== null) cluster.engine('p0').abort(producer.id)
    })
  },
  async 'C5.3'(context) {
    const cluster = await context.openSlow()
    await context.serveWell(cluster)
    const journey = context.serve(cluster)
    await context.untilTransferring(cluster)
    const agents = ['p0', 'd0'].map((name) => cluster.engine(name).host.ranks[0]!.agent.name)
    for (const name of agents) cluster.world.fabric.faults.stall(name)
    const consumer = cluster.engine('d0')
    consumer.abort(journey.consumer!.id)
    await cluster.world.clock.advance(2_000)
    assert.ok(context.openTransfers(cluster) > 0, 'the transfer was to be stuck')
    assert.ok(consumer.heldBlockCount > 0, 'blocks came free under a transfer')
    for (const name of agents) cluster.world.fabric.faults.unstall(name)
    await context.settle(cluster)
    assert.equal(journey.outcome, 'undone')
  },
}
