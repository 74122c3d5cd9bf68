/** C11, continued: engines whose ranks share the same heads out in another way. */
import type { Clock } from '../../clock.ts'
import type { Cluster, ClusterOptions } from '../../testing/cluster/cluster.ts'
import type { TransferAgent } from '../../transfer-agent.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'
import type { ConnectorContext } from './context.ts'
import { delegate } from './delegate.ts'

type Options = Partial<ClusterOptions>

/** Producer and consumer with so many ranks each; together these hold the same heads. */
const sized = (p: number, d: number, kvHeadCount: number, more: Options = {}): Options => ({
  ...more,
  engines: { kvHeadCount, ...more.engines },
  engine: {
    p0: { tpSize: p, ...more.engine?.['p0'] },
    d0: { tpSize: d, ...more.engine?.['d0'] },
  },
})

const mappedSizes = [
  [2, 1],
  [1, 2],
  [4, 2],
  [2, 4],
] as const

/** One rank of each engine: whoever of the two moves bytes, that is one share of several. */
function oneShareOf(cluster: Cluster): string[] {
  const [p, d] = ['p0', 'd0'].map((name) => cluster.engine(name).host.ranks)
  const moving = p!.length > d!.length ? [p!.at(-1)!, d![0]!] : [p![0]!, d!.at(-1)!]
  return moving.map(({ agent }) => agent.name)
}

/** Ranks above the first meet that much later than the first ones: what these need must still be there. */
const lateMs = 600

async function openWithLateRanks(context: ConnectorContext, options: Options): Promise<Cluster> {
  const isLate = (agentName: string): boolean => /\/[1-9]\d*$/.test(agentName)
  let clock: Clock | null = null
  const wrapAgent = (agent: TransferAgent): TransferAgent =>
    delegate(agent, {
      async addPeer(peer) {
        if (isLate(agent.name) || isLate(peer.expectedName)) {
          await new Promise<void>((resolve) => clock!.after(lateMs, resolve))
        }
        return agent.addPeer(peer)
      },
    })
  const cluster = await context.openSlow({ ...options, engines: { ...options.engines, wrapAgent } })
  clock = cluster.world.clock
  return cluster
}

/** What the consumer says of why it does not load. */
function reasonsOf(cluster: Cluster): string {
  const { logs, outputs } = cluster.engine('d0').host
  const errors = outputs.flatMap(({ failed }) => failed.map(({ error }) => error.message))
  return [...logs, ...errors].join('\n')
}

export const tensorParallel: Pick<
  ConnectorGroupRuns<'C11'>,
  'C11.14' | 'C11.15' | 'C11.16' | 'C11.17' | 'C11.18'
> = {
  async 'C11.14'(context) {
    const blocks = context.capabilities.supportsDifferentBlockSizes
      ? ([
          [4, 4],
          [4, 8],
          [8, 4],
        ] as const)
      : ([[4, 4]] as const)
    for (const layout of ['LBHNC', 'LBNHC']) {
      for (const [p, d] of mappedSizes) {
        for (const [pBlock, dBlock] of blocks) {
          const cluster = await context.openSlow(
            sized(p, d, 4, {
              engines: { layout, freeMode: 'cached' },
              engine: { p0: { blockTokens: pBlock }, d0: { blockTokens: dBlock } },
            }),
          )
          for (const promptTokenCount of [1, 7, 8, 9, 31]) {
            await context.serveWell(cluster, { promptTokenCount })
          }
          // Beyond a local hit, which ends at a block of the consumer's.
          await context.serveWell(cluster, { prompt: 99, promptTokenCount: 17 })
          await context.serveWell(cluster, { prompt: 99, promptTokenCount: 45 })
          await context.settle(cluster)
        }
      }
    }
  },
  async 'C11.15'(context) {
    for (const [p, d] of mappedSizes) {
      const cluster = await openWithLateRanks(context, sized(p, d, 4))
      const first = context.serve(cluster)
      await cluster.world.clock.advance(lateMs / 2)
      assert.equal(first.consumer!.status, 'loading', 'one share was not asked for')
      await context.settle(cluster)
      context.assertLoaded(first)
      for (const name of oneShareOf(cluster)) cluster.world.fabric.faults.stall(name)
      const second = context.serve(cluster)
      await cluster.world.clock.advance(500)
      assert.equal(second.consumer!.status, 'loading', 'one share is under way')
      for (const name of oneShareOf(cluster)) cluster.world.fabric.faults.unstall(name)
      await context.settle(cluster)
      context.assertLoaded(second)
    }
  },
  async 'C11.16'(context) {
    for (const [p, d] of mappedSizes) {
      const cluster = await context.openSlow(sized(p, d, 4))
      for (const name of oneShareOf(cluster)) cluster.world.fabric.faults.failNextPosts(name, 1)
      const journey = context.serve(cluster)
      await context.settle(cluster)
      assert.equal(journey.outcome, 'done')
      assert.notEqual(journey.consumer!.loadError, null)
      const failed = cluster.engine('d0').host.outputs.flatMap((output) => output.failed)
      assert.equal(failed.length, 1, 'reported more than once')
      assert.equal(failed[0]!.blockIds[0]!.length, 8, 'not all of its blocks are named')
      for (const name of oneShareOf(cluster)) cluster.world.fabric.faults.failNextPosts(name, 0)
      await context.serveWell(cluster)
      await context.settle(cluster)
    }
  },
  async 'C11.17'(context) {
    // The side whose one rank has two shares outlives the other, and must end both.
    await context.atEveryMoment((cluster) => cluster.kill('p0'), sized(2, 1, 2))
    const boundMs = context.target.releaseBoundMs
    await context.atEveryMoment((cluster) => cluster.kill('d0'), { ...sized(1, 2, 2), boundMs })
  },
  async 'C11.18'(context) {
    for (const [p, d] of [
      [2, 3],
      [3, 2],
    ] as const) {
      const cluster = await context.open(sized(p, d, 6))
      const journey = context.serve(cluster)
      await context.settle(cluster, context.target.releaseBoundMs)
      context.assertNotLoaded(journey)
      assert.equal(journey.consumer!.externalTokenCount, 0, 'tokens were promised')
      const reasons = reasonsOf(cluster)
      assert.ok(
        [p, d].every((size) => reasons.includes(String(size))),
        reasons,
      )
    }
    // A handoff that names another size than the producer has, also one that could be mapped.
    for (const wrong of [1, 3, 4]) {
      const cluster = await context.open(sized(2, 1, 2))
      const { handoff, job } = await context.handoff(cluster)
      const { prompt, promptTokenCount } = job
      const params = { ...handoff, tp_size: wrong }
      const journey = context.consume(cluster, params, { prompt, promptTokenCount })
      await context.settle(cluster, context.target.releaseBoundMs)
      context.assertNotLoaded(journey)
      const { externalTokenCount, loadError } = journey.consumer!
      const isNamed = externalTokenCount === 0 || loadError === 'ERR_KV_PEER_INCOMPATIBLE'
      assert.ok(isNamed, `tp_size ${wrong} for 2: ${loadError}`)
    }
  },
}
