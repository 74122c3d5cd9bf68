/** C10: how a connector ends, beside engines that go on. */
import { limits } from '../../limits.ts'
import type { Cluster } from '../../testing/cluster/cluster.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

/** The engine that has a transfer in flight. */
function initiatorOf(cluster: Cluster): string {
  const initiator = cluster.living.find(
    ({ host }) => host.ranks[0]!.agent.counters().transfersOpen > 0,
  )
  assert.ok(initiator !== undefined, 'no transfer is open')
  return initiator.name
}

/** An orderly end of the whole engine: the connector closes, then the process is gone. */
function close(cluster: Cluster, name: string): void {
  const engine = cluster.engine(name)
  engine.isClosed = true
  void engine.host.shutdown().then(() => cluster.kill(name))
}

export const closing: ConnectorGroupRuns<'C10'> = {
  async 'C10.1'(context) {
    const cluster = await context.openSlow()
    await context.serveWell(cluster)
    context.serve(cluster, { promptTokenCount: 60 })
    await context.untilTransferring(cluster)
    const { host } = cluster.engine(initiatorOf(cluster))
    const { agent } = host.ranks[0]!
    let openAtEnd = -1
    void host.shutdown().then(() => {
      openAtEnd = agent.counters().transfersOpen
    })
    await context.until(cluster, () => openAtEnd !== -1, 2 * limits.transferDeadlineMs)
    assert.equal(openAtEnd, 0, 'closed over a transfer in flight')
  },
  async 'C10.2'(context) {
    const cluster = await context.open()
    await context.serveWell(cluster)
    await context.settle(cluster)
    const engine = cluster.engine('d0')
    const both = Promise.all([engine.host.shutdown(), engine.host.shutdown()])
    await cluster.world.clock.wait(both, limits.transferDeadlineMs)
    await cluster.world.clock.wait(engine.host.shutdown(), 1_000)
    const journey = context.serve(cluster)
    await context.settle(cluster)
    context.assertNotLoaded(journey)
  },
  async 'C10.3'(context) {
    await context.atEveryMoment((cluster) => close(cluster, 'p0'))
  },
  async 'C10.4'(context) {
    const boundMs = context.target.releaseBoundMs
    await context.atEveryMoment((cluster) => close(cluster, 'd0'), { boundMs })
  },
  async 'C10.5'(context) {
    const cluster = await context.openSlow()
    await context.serveWell(cluster)
    context.serve(cluster)
    await context.untilTransferring(cluster)
    const { fabric, clock } = cluster.world
    const initiator = initiatorOf(cluster)
    for (const { host } of cluster.living) fabric.faults.stall(host.ranks[0]!.agent.name)
    await clock.wait(cluster.engine(initiator).host.shutdown(), 2 * limits.transferDeadlineMs)
  },
}
