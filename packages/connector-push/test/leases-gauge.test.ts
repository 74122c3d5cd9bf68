/** The gauges of what is open: what a producer keeps for its consumers, and what a consumer waits for. */
import { expect, test } from 'vitest'
import { open, serve, settle, until, untilServed } from './fixtures/story.ts'

test('kv_leases_open follows what is kept, up and down', async () => {
  const cluster = await open()
  const { metrics } = cluster.engine('p0').host
  const journey = serve(cluster)
  await until(cluster, () => metrics.get('kv_leases_open') === 1)
  await untilServed(cluster, journey)
  await settle(cluster)
  expect(metrics.get('kv_leases_open')).toBe(0)
})

test('open requests, loads and connections are counted while they last', async () => {
  const cluster = await open()
  const shown = (name: string) =>
    ['requests', 'loads', 'connections'].map(
      (of) => cluster.engine(name).host.metrics.get(`kv_${of}_open`) ?? 0,
    )
  const journey = serve(cluster)
  await until(cluster, () => shown('d0')[1] === 1)
  expect([shown('p0')[0], shown('d0')[0]]).toEqual([1, 1])
  await untilServed(cluster, journey)
  await settle(cluster)
  expect([shown('p0'), shown('d0')]).toEqual([
    [0, 0, 0],
    [0, 0, 1],
  ])
  cluster.kill('p0')
  await until(cluster, () => shown('d0')[2] === 0)
})
