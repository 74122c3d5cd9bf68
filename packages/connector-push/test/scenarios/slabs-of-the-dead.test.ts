/**
 * A producer dies when slabs of its WRITE lie at the consumer's agent: these go on appearing in the
 * consumer's blocks, although the producer's process is gone. Its death alone frees nothing.
 */
import { expect, test } from 'vitest'
import { agentCounters, open, serve, settle, until, untilServed } from '../fixtures/story.ts'

test.each([1, 2, 3, 4, 5, 6])(
  'blocks are computed anew only when nothing of the dead producer can appear in them, seed %d',
  async (seed) => {
    const engines = { stepMs: 20, options: { leaseDurationMs: 2_000 } }
    const cluster = await open({ seed, engines, path: 'slabs' })
    const journey = serve(cluster)
    await until(cluster, () => agentCounters(cluster, 'd0').slabsLent > 0)
    cluster.kill('p0')
    cluster.startSoon('p0')
    await untilServed(cluster, journey)
    expect(journey.consumer!.loadError).not.toBe(null)
    await settle(cluster)
    expect(agentCounters(cluster, 'd0').slabsLent).toBe(0)
  },
)
