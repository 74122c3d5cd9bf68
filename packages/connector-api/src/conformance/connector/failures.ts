/** C6: transfers, processes and connections that fail, at every point. */
import { ConnectorError } from '../../errors.ts'
import type { AnyConnectorError } from '../../errors.ts'
import { asEngineId } from '../../ids.ts'
import { limits } from '../../limits.ts'
import type { Cluster } from '../../testing/cluster/cluster.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]

const agentNames = (cluster: Cluster): string[] =>
  ['p0', 'd0'].map((name) => cluster.engine(name).host.ranks[0]!.agent.name)

/** Whoever posts it, the next transfer fails after a part of it was copied. */
function failNextTransfer(cluster: Cluster): void {
  for (const name of agentNames(cluster)) cluster.world.fabric.faults.failNextPosts(name, 1)
}

export const failures: ConnectorGroupRuns<'C6'> = {
  async 'C6.1'(context) {
    const cluster = await context.open()
    failNextTransfer(cluster)
    const journey = context.serve(cluster)
    await context.settle(cluster)
    assert.equal(journey.outcome, 'done')
    assert.notEqual(journey.consumer!.loadError, null)
    // One failure touches nobody else.
    for (const name of agentNames(cluster)) cluster.world.fabric.faults.failNextPosts(name, 0)
    await context.serveWell(cluster)
    await context.settle(cluster)
  },
  async 'C6.2'(context) {
    const cluster = await context.open({ engines: { loadFailurePolicy: 'fail' } })
    failNextTransfer(cluster)
    const journey = context.serve(cluster)
    await context.settle(cluster)
    assert.equal(journey.outcome, 'undone')
    assert.equal(journey.consumer!.finishReason, 'failed')
  },
  async 'C6.3'(context) {
    await context.atEveryMoment((cluster) => cluster.kill('p0'))
  },
  async 'C6.4'(context) {
    const boundMs = context.target.releaseBoundMs
    await context.atEveryMoment((cluster) => cluster.kill('d0'), { boundMs })
  },
  async 'C6.5'(context) {
    const cluster = await context.openSlow()
    await context.serveWell(cluster)
    const journey = context.serve(cluster)
    await context.untilTransferring(cluster)
    for (const name of agentNames(cluster)) cluster.world.fabric.faults.stall(name)
    await cluster.world.clock.advance(1.5 * limits.transferDeadlineMs)
    assert.equal(journey.consumer!.status, 'loading', 'it was reported while a transfer may write')
    for (const name of agentNames(cluster)) cluster.world.fabric.faults.unstall(name)
    await context.settle(cluster)
    assert.equal(journey.outcome, 'done')
  },
  async 'C6.6'(context) {
    const cluster = await context.open()
    await context.serveWell(cluster)
    const details = { operation: 'poll', status: 'broken' }
    const error = new ConnectorError('ERR_NIXL', 'gone', details) as AnyConnectorError
    for (const name of agentNames(cluster)) cluster.world.fabric.faults.break(name, error)
    await cluster.world.clock.advance(10)
    const journey = context.serve(cluster)
    await context.settle(cluster, context.target.outcomeBoundMs)
    context.assertNotLoaded(journey)
  },
  async 'C6.7'(context) {
    await context.atEveryMoment(({ world }) => world.channels.faults.breakAssociations(p0, d0))
  },
  async 'C6.8'(context) {
    await context.atEveryMoment(({ world: { channels, clock } }) => {
      channels.faults.partition(p0, d0)
      clock.after(3_000, () => channels.faults.heal(p0, d0))
    })
  },
  async 'C6.9'(context) {
    for (const [at, name] of ['p0', 'd0'].entries()) {
      await context.atEveryMoment((cluster) => {
        const { channels, clock, fabric } = cluster.world
        const agent = agentNames(cluster)[at]!
        channels.faults.stop(asEngineId(name))
        fabric.faults.stop(agent)
        clock.after(2_000, () => {
          channels.faults.resume(asEngineId(name))
          fabric.faults.resume(agent)
        })
      })
    }
  },
  async 'C6.10'(context) {
    const cluster = await context.open()
    await context.serveWell(cluster)
    const tokens = (4 * cluster.engine('d0').pool.blockCount + 16) * limits.quarantinedBlockShareMax
    for (const name of agentNames(cluster)) cluster.world.fabric.faults.stall(name)
    context.serve(cluster, { promptTokenCount: tokens })
    await cluster.world.clock.advance(1.1 * limits.transferDeadlineMs)
    const refused = context.serve(cluster, { promptTokenCount: 8 })
    await context.until(cluster, () => refused.outcome !== 'open', 1_000)
    assert.equal(refused.outcome, 'done')
    assert.equal(refused.consumer!.loadError, 'ERR_KV_QUARANTINE_FULL')
    for (const name of agentNames(cluster)) cluster.world.fabric.faults.unstall(name)
    await context.settle(cluster)
    await context.serveWell(cluster)
  },
}
