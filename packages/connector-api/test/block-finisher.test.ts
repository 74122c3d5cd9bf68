/** What a consumer does once all bytes have arrived: mostly nothing, and then at once. */
import { expect, test } from 'vitest'
import type { KvCacheLayout, KvKernels } from '../src/index.ts'
import { BlockFinisher, loadedRun } from '../src/protocol/index.ts'

const blockTokens = 4
const caches: KvCacheLayout = {
  ...{ model: 'm', dtype: 'd', layout: 'LBNHC', layerCount: 1, headSize: 1 },
  ...{ kvHeadCount: 2, blockTokens, blockCount: 8, regions: [] },
}
const run = loadedRun(Uint32Array.of(3, 5), 7, blockTokens)

function finisherWith(relayout: KvKernels['relayout']): BlockFinisher {
  return new BlockFinisher(caches, { relayout } as KvKernels)
}

test('bytes that lie as they must are ready without a promise, which would cost a turn', () => {
  const finisher = finisherWith(() => Promise.reject(new Error('nothing was to be done')))
  expect(finisher.finish(run, caches)).toBe(null)
})

test('others are put in order, and the end waits for that', async () => {
  const orders: number[] = []
  let end = (): void => {}
  const finisher = finisherWith((_from, _to, tokenCount) => {
    orders.push(tokenCount)
    return new Promise((resolve) => (end = resolve))
  })
  const work = finisher.finish(run, { ...caches, layout: 'LBHNC' })
  let isSettled = false
  const settled = finisher.settle().then(() => (isSettled = true))
  await Promise.resolve()
  expect(orders).toEqual([7])
  expect(isSettled).toBe(false)
  end()
  expect(await work).toBe(null)
  await settled
})

test('a kernel that fails is the load’s error, and nothing rejects', async () => {
  const finisher = finisherWith(() => Promise.reject(new Error('no kernel')))
  const error = await finisher.finish(run, { ...caches, layout: 'LBHNC' })
  expect(error).toMatchObject({ code: 'ERR_KV_TRANSFER_FAILED' })
  await finisher.settle()
})
