/** RT-17: no option that nothing reads. Each is listed with what two values of it change. */
import type { KvKernels } from '@kvferry/connector-api'
import { wrapFactory } from '@kvferry/connector-api/conformance'
import type { Cluster } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { parseXavierOptions, xavier, type XavierOptions } from '../../src/index.ts'
import { historyOf, keeping, kept } from '../fixtures/kept.ts'
import {
  agentOf,
  counter,
  d0,
  handoff,
  open,
  p0,
  serve,
  settle,
  until,
  untilServed,
  untilWriting,
} from '../fixtures/story.ts'

type Options = Partial<Record<keyof XavierOptions, unknown>>

interface Effect {
  readonly values: readonly [unknown, unknown]
  /** What comes of a story in which the option matters. */
  readonly observe: (options: Options) => Promise<unknown>
  readonly expected: readonly [unknown, unknown]
}

/** Seconds until it is so, rounded. */
async function secondsUntil(cluster: Cluster, isSo: () => boolean): Promise<number> {
  const { clock } = cluster.world
  const start = clock.now()
  await until(cluster, isSo)
  return Math.round((clock.now() - start) / 1_000)
}

const openWith = (options: Options): Promise<Cluster> => open({ engines: { options } })

/** Copies of snapshots are counted, and made when `isAllowed` has come. */
async function openWithCopies(options: Options, isAllowed: Promise<void> = Promise.resolve()) {
  const copies = { count: 0 }
  const cluster = await open({
    engines: { options },
    factory: wrapFactory(xavier, {
      workerComponents: (components) => {
        const kernels: KvKernels = Object.create(components.kernels!) as KvKernels
        kernels.relayout = async (...copied) => {
          copies.count += 1
          await isAllowed
          return components.kernels!.relayout(...copied)
        }
        return { ...components, kernels }
      },
    }),
  })
  return { cluster, copies }
}

/** Each prompt is served once, and kept as far as it is. */
async function servedWithHistory(options: Options, prompts: readonly number[]): Promise<Cluster> {
  const cluster = await open({
    engines: { history: historyOf(1), options: { ...keeping(), ...options } },
  })
  for (const prompt of prompts) {
    await untilServed(cluster, serve(cluster, { id: `r${prompt}`, prompt }))
    await settle(cluster)
  }
  return cluster
}

const effects: Readonly<Record<keyof XavierOptions, Effect>> = {
  staging: {
    values: ['direct', 'snapshot'],
    async observe(options) {
      const { cluster, copies } = await openWithCopies(options)
      await untilServed(cluster, serve(cluster))
      return copies.count > 0
    },
    expected: [false, true],
  },
  unclaimedTicketMs: {
    values: [2_000, 5_000],
    async observe(options) {
      const cluster = await openWith(options)
      await handoff(cluster)
      return secondsUntil(cluster, () => cluster.engine('p0').heldBlockCount === 0)
    },
    expected: [2, 5],
  },
  claimedTicketMs: {
    values: [3_000, 9_000],
    async observe(options) {
      const engine = { d0: { blockCount: 10, stepMs: 400 } }
      const cluster = await open({
        engines: { options: { unclaimedTicketMs: 1_000, ...options } },
        engine,
      })
      const room = { id: 'd0/local', prompt: 9, promptTokenCount: 20, outputTokenCount: 20 }
      cluster.engine('d0').submit({ ...room, params: null })
      serve(cluster)
      await until(cluster, () => counter(cluster, 'd0', 'heartbeatsDone') > 0)
      // It holds its claim, has no room yet, and is not heard of any more.
      cluster.world.channels.faults.partition(p0, d0)
      const seconds = await secondsUntil(cluster, () => {
        return cluster.engine('p0').heldBlockCount === 0
      })
      return seconds > 5
    },
    expected: [false, true],
  },
  transferDeadlineMs: {
    values: [1_000, 4_000],
    async observe(options) {
      const cluster = await openWith(options)
      const journey = serve(cluster)
      await untilWriting(cluster)
      const { name } = agentOf(cluster, 'd0')
      cluster.world.fabric.faults.stall(name)
      const seconds = await secondsUntil(cluster, () => {
        return counter(cluster, 'p0', 'blocksQuarantined') > 0
      })
      cluster.world.fabric.faults.unstall(name)
      await untilServed(cluster, journey)
      return seconds
    },
    expected: [1, 4],
  },
  handshakeTimeoutMs: {
    values: [1_000, 3_000],
    async observe(options) {
      const cluster = await openWith(options)
      cluster.world.channels.faults.partition(p0, d0)
      const journey = serve(cluster)
      return secondsUntil(cluster, () => (journey.consumer?.loadError ?? null) !== null)
    },
    expected: [1, 3],
  },
  loadTimeoutMs: {
    values: [2_000, 5_000],
    async observe(options) {
      const never = new Promise<void>(() => {})
      const { cluster } = await openWithCopies({ staging: 'snapshot', ...options }, never)
      const journey = serve(cluster)
      await until(cluster, () => journey.consumer?.status === 'loading')
      const seconds = await secondsUntil(cluster, () => journey.consumer!.loadError !== null)
      return [seconds, journey.consumer!.loadError]
    },
    expected: [
      [2, 'ERR_KV_DEADLINE'],
      [5, 'ERR_KV_DEADLINE'],
    ],
  },
  recomputeThreshold: {
    values: [30, 31],
    async observe(options) {
      const cluster = await openWith(options)
      const journey = serve(cluster)
      await untilServed(cluster, journey)
      return journey.consumer!.externalTokenCount
    },
    expected: [30, 0],
  },
  gpuCacheBytes: {
    values: [0, 8 * 128],
    observe: async (options) =>
      kept(await servedWithHistory(options, [1]), 'historyDeviceBlockCapacity'),
    expected: [0, 8],
  },
  hostBlockCount: {
    values: [3, 30],
    observe: async (options) =>
      kept(await servedWithHistory(options, [1]), 'historyHostBlockCapacity'),
    expected: [3, 30],
  },
  historyPolicy: {
    values: ['observed-reuse', 'copy-on-eviction'],
    // Four prompts of eight blocks, and room for three.
    observe: async (options) =>
      kept(await servedWithHistory(options, [1, 2, 3, 4]), 'historyAdmissionRejectedBlocks'),
    expected: [8, 0],
  },
}

test('RT-17: every option is listed here', () => {
  expect(Object.keys(effects).toSorted()).toEqual(Object.keys(parseXavierOptions({})).toSorted())
})

test.each(Object.entries(effects))(
  'RT-17: two values of %s differ in what it says',
  async (option, { values, observe, expected }) => {
    const seen = []
    for (const value of values) seen.push(await observe({ [option]: value }))
    expect(seen).toEqual(expected)
  },
)
