/** What is open now, as gauges show it: up with each beginning, and back to nothing with the last end. */
import { expect, test } from 'vitest'
import type { Engine } from './fixtures/engine.ts'
import { createPair, prompt, slowFabric, startLoad, until, untilAllFree } from './fixtures/world.ts'

const shown = ({ metrics }: Engine) =>
  ['requests', 'loads', 'connections', 'leases'].map((of) => metrics.get(`kv_${of}_open`) ?? 0)

test('a request, its load, its connection and its lease are open while they last', async () => {
  const pair = await createPair({ times: slowFabric })
  const { p, d, world } = pair
  const params = await p.prefill('p-r0', prompt, 30)
  p.step()
  expect([shown(p), shown(d)]).toEqual([
    [1, 0, 0, 1],
    [0, 0, 0, 0],
  ])
  const request = d.admit('d-r0', 30, params)
  d.step()
  expect(shown(d)).toEqual([1, 1, 0, 0])
  await until(world, () => d.agent.counters().transfersOpen > 0)
  expect(shown(d)).toEqual([1, 1, 1, 0])
  await until(world, () => request.outcome === 'loaded')
  // The request itself goes on, and the connection is kept for the next one.
  expect(shown(d)).toEqual([1, 0, 1, 0])
  await untilAllFree(pair)
  expect([shown(p), shown(d)]).toEqual([
    [0, 0, 0, 0],
    [0, 0, 1, 0],
  ])
  p.kill()
  await until(world, () => shown(d)[2] === 0, 1_000)
})

test('a load that fails is closed, and so is one that never starts', async () => {
  const pair = await createPair()
  pair.world.fabric.faults.failNextPosts(pair.d.agent.name, 1)
  const broken = await startLoad(pair)
  await until(pair.world, () => broken.outcome === 'failed')
  const refused = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => refused.outcome === 'loaded')
  await untilAllFree(pair)
  expect(shown(pair.d)).toEqual([0, 0, 1, 0])
})
