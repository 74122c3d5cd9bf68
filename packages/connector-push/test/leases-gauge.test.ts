/** The gauge of what a producer keeps for its consumers. */
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
