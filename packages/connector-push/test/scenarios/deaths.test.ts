/**
 * Deaths and restarts at each state of a transfer, chunk by chunk and at once. Upstream: P's death leaves D
 * waiting for ever (L1), D's leaves P's blocks to the end of their lease, and a new life of either is taken
 * for the old one until its first error.
 */
import { describe, expect, test } from 'vitest'
import {
  agentCounters,
  counter,
  open,
  serve,
  settle,
  until,
  untilServed,
} from '../fixtures/story.ts'

type Opened = Awaited<ReturnType<typeof open>>

/** Moments of one story, in order; each is reached before the prompt's last byte has landed. */
const moments: Readonly<Record<string, (cluster: Opened) => boolean>> = {
  'before anything was said': () => true,
  'once the handshake is done': (cluster) => counter(cluster, 'd0', 'handshakesDone') > 0,
  'once blocks are registered': (cluster) => counter(cluster, 'p0', 'registrationsAccepted') > 0,
  'once a WRITE is posted': (cluster) => agentCounters(cluster, 'p0').transfersPosted > 0,
  'once a WRITE has ended': (cluster) => agentCounters(cluster, 'p0').transfersDone > 0,
}
const engines = { stepMs: 20, stepTokenCountMax: 10, options: { leaseDurationMs: 2_000 } }

describe.each([false, true])('progressive: %s', (progressive) => {
  const options = { ...engines.options, progressive }

  for (const [moment, hasCome] of Object.entries(moments)) {
    for (const victim of ['p0', 'd0'] as const) {
      test(`${victim} dies and comes back ${moment}`, async () => {
        const cluster = await open({ engines: { ...engines, options } })
        const journey = serve(cluster)
        await until(cluster, () => hasCome(cluster))
        cluster.kill(victim)
        await cluster.world.clock.advance(5)
        cluster.startSoon(victim)
        await until(cluster, () => !cluster.engine(victim).isHalted)
        if (victim === 'p0') await untilServed(cluster, journey)
        await settle(cluster)
        const next = serve(cluster, { id: 'next', prompt: 2 })
        await untilServed(cluster, next)
        expect(next.consumer!.loadError).toBe(null)
        expect(next.consumer!.externalTokenCount).toBe(30)
        await settle(cluster)
      })
    }
  }
})

test('too many blocks of a producer are read by WRITEs without end: it takes nothing more on', async () => {
  // Upstream: nothing counts them; the pool runs dry.
  const options = { transferDeadlineMs: 200 }
  const engine = { p0: { blockCount: 32 } }
  const cluster = await open({ engines: { options }, engine })
  const { name } = cluster.engine('d0').host.ranks[0]!.agent
  await untilServed(cluster, serve(cluster))
  cluster.world.fabric.faults.stall(name)
  const stuck = [2, 3, 4].map((prompt) => serve(cluster, { id: `stuck-${prompt}`, prompt }))
  await until(cluster, () => counter(cluster, 'p0', 'writesOverdue') > 0)
  await until(cluster, () => counter(cluster, 'p0', 'blocksQuarantined') >= 8)
  const refused = serve(cluster, { id: 'refused', prompt: 9, promptTokenCount: 8 })
  await untilServed(cluster, refused)
  expect(refused.consumer!.loadError).toBe('ERR_KV_QUARANTINE_FULL')
  cluster.world.fabric.faults.unstall(name)
  await until(cluster, () => stuck.every(({ outcome }) => outcome === 'done'))
  await settle(cluster)
})
