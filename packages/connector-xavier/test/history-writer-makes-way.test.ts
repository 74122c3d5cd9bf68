/** When the history's writer makes way, and what of the history an engine shows. */
import type { TransferDirections } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { historyOf, keepingEngines, kept } from './fixtures/kept.ts'
import { agentOf, open, serve, settle, until, untilServed, untilWriting } from './fixtures/story.ts'

/** A cluster whose copies take 50 ms, and what its first producer told its history. */
async function watched() {
  const given: TransferDirections[] = []
  const cluster = await open({
    engines: {
      ...keepingEngines(),
      history: (world) => ({
        open(options) {
          given.push(options.directions!)
          return historyOf(50)(world).open(options)
        },
      }),
    },
  })
  return { cluster, directions: given[0]! }
}

test('the writer makes way for handoffs and for restores, and nothing for the writer', async () => {
  const { cluster, directions } = await watched()
  expect(directions.isBusy()).toBe(false)
  const first = serve(cluster)
  await untilWriting(cluster)
  expect(directions.isBusy()).toBe(true)
  await until(cluster, () => !directions.isBusy())
  // Its blocks are still P's, for the history copies them.
  expect(cluster.engine('p0').heldBlockCount).toBe(8)
  await untilServed(cluster, first)
  await settle(cluster)
  expect(kept(cluster, 'historySavedBlocks')).toBe(8)
  const again = serve(cluster, { id: 'again' })
  await until(cluster, () => again.producer?.status === 'loading')
  expect(agentOf(cluster, 'p0').counters().transfersOpen).toBe(0)
  expect(directions.isBusy()).toBe(true)
  await untilServed(cluster, again)
  await settle(cluster)
  expect(directions.isBusy()).toBe(false)
})

test('what a restore does to the directions ends with it, also when it fails', async () => {
  const { directions } = await watched()
  const failing = directions.during('receive', () => Promise.reject(new Error('no device')))
  expect(directions.isBusy()).toBe(true)
  await expect(failing).rejects.toThrow('no device')
  expect(directions.isBusy()).toBe(false)
})

test('an engine shows how large its tiers are, how full, and what they take', async () => {
  const { cluster } = await watched()
  await untilServed(cluster, serve(cluster))
  await settle(cluster)
  // 8 blocks of 128 bytes on the device, 16 in host memory; the prompt has 8, so the host tier is untouched.
  expect(cluster.engine('p0').host.stats.at(-1)!.counters).toMatchObject({
    ...{ historyDeviceBlocks: 8, historyDeviceBlockCapacity: 8, historyDeviceBytesReserved: 1_024 },
    ...{ historyHostBlocks: 0, historyHostBlockCapacity: 16, historyHostBytesReserved: 0 },
    ...{ historyLeasesOpen: 0, historySlotsQuarantined: 0 },
  })
})
