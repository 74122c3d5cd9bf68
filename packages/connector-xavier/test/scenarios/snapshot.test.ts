/** `staging: snapshot`: nothing leaves before all of a prompt is copied, and what leaves is the copy. */
import { ConnectorError, type KvKernels } from '@kvferry/connector-api'
import { wrapFactory } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import { xavier } from '../../src/index.ts'
import { handoff, open, posted, serve, settle, shortLives, untilServed } from '../fixtures/story.ts'

const options = { ...shortLives, staging: 'snapshot' }

/** A cluster whose copies wait for `relayout` to allow them. */
const openWith = (relayout: (copy: () => Promise<void>) => Promise<void>) =>
  open({
    engines: { options },
    factory: wrapFactory(xavier, {
      workerComponents: (components) => {
        const kernels: KvKernels = Object.create(components.kernels!) as KvKernels
        kernels.relayout = (...copied) => relayout(() => components.kernels!.relayout(...copied))
        return { ...components, kernels }
      },
    }),
  })

test('a consumer that was there first waits for the whole copy; then every byte is right', async () => {
  let copyAll = (): void => undefined
  const isAllowed = new Promise<void>((resolve) => (copyAll = resolve))
  const cluster = await openWith((copy) => isAllowed.then(copy))
  const journey = serve(cluster)
  await cluster.world.clock.advance(1_500)
  expect(journey.consumer?.status).toBe('loading')
  expect(posted(cluster)).toBe(0)
  copyAll()
  await untilServed(cluster, journey)
  expect(journey.consumer!.loadError).toBe(null)
  expect(posted(cluster)).toBe(1)
  await settle(cluster)
})

test('a copy that fails fails its loads, early or late, and gives the blocks back', async () => {
  const broken = new ConnectorError('ERR_KV_LIMIT', 'no kernel is free', {
    ...{ limit: 'kernelQueueMax', value: 2, max: 1 },
  })
  const cluster = await openWith(() => Promise.reject(broken))
  const early = serve(cluster)
  await untilServed(cluster, early)
  expect(early.consumer!.loadError).not.toBe(null)
  const late = await handoff(cluster, { id: 'r2', prompt: 2 })
  await cluster.world.clock.advance(100)
  expect(cluster.engine('p0').heldBlockCount).toBe(0)
  const again = cluster.router.repeat(late, 'd0', 'again')
  await untilServed(cluster, again)
  expect(again.consumer!.loadError).toBe('ERR_KV_LEASE_EXPIRED')
  expect(posted(cluster)).toBe(0)
  await settle(cluster)
})

test('a ticket that ends while its copy waits is over: the copy changes nothing', async () => {
  let copyAll = (): void => undefined
  const isAllowed = new Promise<void>((resolve) => (copyAll = resolve))
  const cluster = await openWith((copy) => isAllowed.then(copy))
  await handoff(cluster)
  await cluster.world.clock.advance(2_500)
  expect(cluster.engine('p0').heldBlockCount).toBe(0)
  copyAll()
  await settle(cluster)
})
