import { expect, test } from 'vitest'
import { createPair, type Pair } from './fixtures/world.ts'

async function load(
  { world, p, d }: Pair,
  tokenCount: number,
  hitTokenCount = 0,
  id = 'r0',
): Promise<void> {
  const params = await p.prefill(`p-${id}`, 7, tokenCount)
  const request = d.admit(`d-${id}`, tokenCount, params, hitTokenCount)
  expect(request.outcome).toBe('loading')
  d.step()
  expect(await world.clock.runUntil(() => request.outcome !== 'loading', 10_000)).toBe(true)
  expect(request.errorCode).toBe(null)
  expect(request.outcome).toBe('loaded')
  expect(await d.isLoadedRight(request, 7)).toBe(true)
}

test.each([1, 3, 4, 5, 8, 31])('a prompt of %i tokens arrives byte for byte', async (count) => {
  const pair = await createPair({ seed: count })
  await load(pair, count)
  // P frees its blocks at the reader's word, long before the lease would end.
  expect(await pair.world.clock.runUntil(() => pair.p.free.length === 64, 100)).toBe(true)
  expect(pair.p.scheduler.hasPendingBlockFrees()).toBe(false)
  expect(pair.d.scheduler.hasPendingBlockFrees()).toBe(false)
})
