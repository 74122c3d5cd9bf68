/**
 * Accidents of figures: metrics that got lost, or that were read for what they are not. Each test has
 * upstream's number and, in its first line, what happens there.
 */
import { metricDefinitions } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { createPair, prompt, slowFabric, startLoad, until, type Pair } from '../fixtures/world.ts'

/** 30 tokens in blocks of 4, in two layers of 64 bytes. */
const loadBytes = 8 * 2 * 64

test('#25388, #26811, #32340 what every rank moved is in the metrics, and in the counters', async () => {
  // Upstream: there were none, or they got lost with several engines in one server or one connector inside another.
  const tp = { tpSize: 2 }
  const pair = await createPair({ p: tp, d: tp })
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  await until(pair.world, () => pair.p.free.length === 64)
  const { p, d } = pair
  expect(d.metrics.get('kv_transfer_bytes_total read')).toBe(2 * loadBytes)
  expect(d.metrics.get('kv_transfer_duration_seconds')).toBe(2)
  expect(p.metrics.get('kv_leases_granted_total')).toBe(2)
  const loads = d.stats.flatMap((stats) => stats.loads)
  expect(loads.map(({ requestId, bytes }) => [requestId, bytes])).toEqual([
    ['d-r0', loadBytes],
    ['d-r0', loadBytes],
  ])
  // Told once: nobody asks twice and is told the same.
  d.step()
  for (const { worker } of d.host.ranks) expect(worker.getStats()).toBe(null)
})

/** Two loads that are under way at once. */
async function twoAtOnce(pair: Pair): Promise<void> {
  const params = [await pair.p.prefill('p-a', prompt, 30), await pair.p.prefill('p-b', prompt, 30)]
  const requests = params.map((of, index) => pair.d.admit(`d-${index}`, 30, of))
  pair.d.step()
  await until(pair.world, () => requests.every(({ outcome }) => outcome === 'loaded'))
}

test('#41230 a rate is bytes over the time that passed, not over durations that are added up', async () => {
  // Upstream: loads that ran beside each other were counted one after the other, and the rate came out too low.
  const pair = await createPair({ times: slowFabric })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const before = pair.d.metrics.get('kv_transfer_bytes_total read')!
  await twoAtOnce(pair)
  const [, ...loads] = pair.d.stats.flatMap((stats) => stats.loads)
  expect(loads).toHaveLength(2)
  const passedMs =
    Math.max(...loads.map(({ completeAtMs }) => completeAtMs)) -
    Math.min(...loads.map(({ postedAtMs }) => postedAtMs!))
  const addedMs = loads.reduce((sum, { wireUs }) => sum + wireUs / 1_000, 0)
  // Each sample says when it was, so that what overlaps is counted once.
  expect(addedMs).toBeGreaterThan(1.5 * passedMs)
  for (const { wireUs } of loads) expect(wireUs / 1_000).toBeLessThanOrEqual(passedMs)
  expect(pair.d.metrics.get('kv_transfer_bytes_total read')! - before).toBe(2 * loadBytes)
  // No figure of ours is a rate: whoever wants one divides the growth of a total by the time between two looks.
  const rates = /throughput|bandwidth|per_second|_rate/
  expect(Object.keys(metricDefinitions).filter((name) => rates.test(name))).toEqual([])
})
