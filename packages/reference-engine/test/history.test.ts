/** The history that the engine gives to worker halves works on the engine's own blocks, and is accounted for. */
import { blockBytes, chainBlockKeys, silentLogger, silentMetrics } from '@kvferry/connector-api'
import { createSeededRandom, createSimClock } from '@kvferry/connector-api/testing'
import { expect, it, onTestFinished } from 'vitest'
import { ScriptedConnector } from './support/scripted-connector.ts'
import { startTestCore } from './support/test-core.ts'

it('keeps blocks of the engine and writes them back', async () => {
  const connector = new ScriptedConnector()
  const engine = await startTestCore({ factory: connector.factory })
  onTestFinished(() => engine.close())
  const caches = connector.caches!
  const clock = createSimClock()
  const history = connector.history!.open({
    ...{ caches, clock, logger: silentLogger, metrics: silentMetrics },
    random: createSeededRandom(1),
    gpuCacheBytes: 2 * blockBytes(caches),
  })
  onTestFinished(() => clock.wait(history.close(), 1_000))
  const [region] = caches.regions
  const block = (id: number) => {
    const start = region!.offsetBytes + id * region!.blockStrideBytes
    return region!.memory.bytes!.subarray(start, start + region!.blockSizeBytes)
  }
  const keys = chainBlockKeys({ model: 'm', layout: 'l' }, [1, 2, 3], caches.blockTokens)
  block(5).fill(7)
  await clock.wait(history.offer({ keys, blockIds: Uint32Array.of(5) })!, 1_000)
  block(5).fill(0)
  const { lease } = history.reserve(keys, 0)!
  const restored = history.restore(lease, Uint32Array.of(3))
  expect(await clock.wait(restored, 1_000)).toMatchObject({ kind: 'restored', blockCount: 1 })
  expect(block(3).every((byte) => byte === 7)).toBe(true)
  const { memoryBytes } = await engine.core.stats()
  expect(memoryBytes).toMatchObject({ deviceHistory: 2 * blockBytes(caches), hostHistory: 0 })
})
