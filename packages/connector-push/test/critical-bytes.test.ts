/** What is left to move when the prompt is computed: all of it, or about one chunk of it. */
import type { LoadSample } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { open, serve, settle, untilServed } from './fixtures/story.ts'

const chunkCount = 8
const chunkTokens = 8

/** Chunks take longer than their bytes. */
async function sampleOf(progressive: boolean): Promise<LoadSample> {
  const cluster = await open({
    engines: { options: { progressive }, stepMs: 200, stepTokenCountMax: chunkTokens },
  })
  await untilServed(
    cluster,
    serve(cluster, { promptTokenCount: chunkCount * chunkTokens, hopMs: 0 }),
  )
  await settle(cluster)
  const loads = cluster.engine('d0').host.stats.flatMap((stats) => stats.loads)
  expect(loads).toHaveLength(1)
  return loads[0]!
}

test('progressive: of eight chunks at most one and a half are on the critical path', async () => {
  const { bytes, lastBytes } = await sampleOf(true)
  expect(lastBytes).toBeGreaterThan(0)
  expect(lastBytes).toBeLessThanOrEqual((1.5 * bytes) / chunkCount)
})

test('without, all of them are', async () => {
  const { bytes, lastBytes, blockedUs, blockedCopyUs } = await sampleOf(false)
  expect(lastBytes).toBe(bytes)
  expect(blockedCopyUs).toBe(0)
  expect(blockedUs).toBeGreaterThanOrEqual(0)
})
