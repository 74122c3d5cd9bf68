/** Fences that a GPU opens, over the fake driver: what only a driver that can be told to misbehave shows. */
import './fake-cuda.ts'
import type { TransferAgent, TransferCompletion, TransferPost } from '@kvferry/connector-api'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  createDeviceAllocator,
  createDeviceEvent,
  createNixlAgent,
  importDeviceEvent,
  type CudaEvent,
  type DeviceKvMemory,
} from '../src/index.ts'
import { fakeLibraryPath } from './fake-library.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

const sizeBytes = 65_536
const stillMs = 60
const illegalAddress = '700'
const settings = ['STALLED', 'QUERY_STATUS'].map((name) => `KVFERRY_FAKE_CUDA_${name}`)
const [stalled, queryStatus] = settings as [string, string]
/** Kept in limits.h alone. */
const fenceCountMax = 8_192

let agents: TransferAgent[]
let agent: TransferAgent
let target: DeviceKvMemory
let post: TransferPost
let completions: TransferCompletion[]
let event: CudaEvent
let count = 0

async function openAgent(device: number | null): Promise<TransferAgent> {
  count += 1
  const opened = await createNixlAgent({
    ...{ name: `fences-${process.pid}-${count}`, device },
    ...(device === null ? {} : { slabs: { sizeBytes: 16_384, count: 2 }, ipc: {} }),
  })
  agents.push(opened)
  return opened
}

async function tableOf(owner: TransferAgent, value: number) {
  const memory = createDeviceAllocator({ device: 0 }).allocate({ sizeBytes })
  memory.write(0, new Uint8Array(sizeBytes).fill(value))
  const region = await owner.registerRegion({ memory, offsetBytes: 0, lengthBytes: sizeBytes })
  const layout = { blockSizeBytes: sizeBytes, blockStrideBytes: sizeBytes, blockCount: 1 }
  return { memory, table: owner.declareBlockTable([{ region, offsetBytes: 0, ...layout }]) }
}

beforeEach(async () => {
  agents = []
  completions = []
  agent = await openAgent(0)
  const peer = await openAgent(0)
  const [own, theirs] = [await tableOf(agent, 7), await tableOf(peer, 1)]
  target = theirs.memory
  peer.expectNotifications(true)
  agent.setListener({
    onCompletions: (batch) => void completions.push(...batch),
    onNotifications() {},
    onBroken(error) {
      throw error
    },
  })
  const metadata = await peer.localMetadata()
  const handle = await agent.addPeer({ metadata, expectedName: peer.name })
  const blockIds = Uint32Array.of(0)
  post = {
    ...{ direction: 'write', peer: handle, local: { table: own.table, blockIds } },
    remote: {
      table: agent.importBlockTable(handle, peer.exportBlockTable(theirs.table)),
      blockIds,
    },
  }
  event = createDeviceEvent({ device: 0 })
})
afterEach(async () => {
  for (const name of settings) delete process.env[name]
  await Promise.all(agents.map((each) => each.close({ deadlineMs: 1_000 })))
})

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

async function ended(endCount: number): Promise<void> {
  const end = performance.now() + 20_000
  while (completions.length < endCount) {
    if (performance.now() > end) throw new Error(`only ${completions.length} of ${endCount} ended`)
    await wait(1)
  }
}

/** What all of the target's bytes are; null when they differ. */
function targetByte(): number | null {
  const bytes = new Uint8Array(sizeBytes)
  target.read(0, bytes)
  return bytes.every((byte) => byte === bytes[0]) ? bytes[0]! : null
}

test.each(['descriptors', 'slabs', 'ipc'] as const)(
  'by %s: what waits leaves when the event is there, and no sooner',
  async (path) => {
    process.env[stalled] = '1'
    event.record(0n)
    const fence = agent.createFence()
    agent.signalFence(fence, { event })
    agent.post([
      { ...post, path, after: fence },
      { ...post, path, after: fence },
    ])
    // A fence keeps what it waits for.
    event.free()
    await wait(stillMs)
    expect(completions).toEqual([])
    expect(targetByte()).toBe(1)
    delete process.env[stalled]
    await ended(2)
    expect(completions.map(({ status }) => status)).toEqual(['done', 'done'])
    expect(targetByte()).toBe(7)
  },
)

test('a GPU that fails first: what waits and what comes later ends with ERR_CUDA, and nothing moved', async () => {
  event.record(0n)
  const fence = agent.createFence()
  process.env[stalled] = '1'
  agent.post([{ ...post, after: fence }])
  agent.signalFence(fence, { event })
  await wait(stillMs)
  process.env[queryStatus] = illegalAddress
  await ended(1)
  for (const name of settings) delete process.env[name]
  agent.signalFence(fence)
  agent.post([{ ...post, after: fence }])
  await ended(2)
  for (const completion of completions) {
    expect(completion).toMatchObject({
      status: 'failed',
      error: { code: 'ERR_CUDA', details: { operation: 'eventQuery', status: 'CUDA error 700' } },
    })
  }
  expect(targetByte()).toBe(1)
  expect(agent.counters()).toMatchObject({ transfersPosted: 0, transfersFailed: 2 })
  // The agent itself goes on.
  agent.post([post])
  await ended(3)
  expect(completions[2]!.status).toBe('done')
})

test('an event that is none any more fails what waits for it, as the driver says', async () => {
  const fence = agent.createFence()
  agent.post([{ ...post, after: fence }])
  agent.signalFence(fence, { event: importDeviceEvent({ device: 0, event: 4_096n }) })
  await ended(1)
  expect(completions[0]).toMatchObject({
    error: { code: 'ERR_CUDA', details: { status: 'CUDA_ERROR_INVALID_HANDLE' } },
  })
})

test('of an event and other signals the earliest counts', async () => {
  process.env[stalled] = '1'
  event.record(0n)
  const [now, soon] = [agent.createFence(), agent.createFence()]
  for (const fence of [now, soon]) {
    agent.signalFence(fence, { event })
    agent.post([{ ...post, after: fence }])
  }
  agent.signalFence(now)
  await ended(1)
  agent.signalFence(soon, { inMs: 1 })
  await ended(2)
  expect(completions.map(({ status }) => status)).toEqual(['done', 'done'])
})

test('an event recorded again means the later moment, also to those who wait already', async () => {
  process.env[stalled] = '1'
  event.record(0n)
  const fence = agent.createFence()
  agent.signalFence(fence, { event })
  event.record(0n)
  agent.post([{ ...post, after: fence }])
  await wait(stillMs)
  expect(completions).toEqual([])
  delete process.env[stalled]
  await ended(1)
})

test('refused, with the fence as it was: another GPU’s event, a second one, none here, no handle, a null pointer', async () => {
  const fence = agent.createFence()
  agent.post([{ ...post, after: fence }])
  const elsewhere = createDeviceEvent({ device: 1 })
  elsewhere.record(0n)
  event.record(0n)
  const unsupported = expect.objectContaining({
    code: 'ERR_KV_UNSUPPORTED',
    details: { capability: 'fence by event' },
  })
  expect(() => agent.signalFence(fence, { event: elsewhere })).toThrow(unsupported)
  const onHost = await openAgent(null)
  expect(() => onHost.signalFence(onHost.createFence(), { event })).toThrow(unsupported)
  const foreign = { kind: 'cuda', device: 0 } as const
  expect(() => agent.signalFence(fence, { event: foreign })).toThrow(TypeError)
  expect(() => agent.signalFence({ handle: 5 as never }, { event })).toThrow(RangeError)
  await wait(stillMs)
  expect(completions).toEqual([])
  process.env[stalled] = '1'
  event.record(0n)
  agent.signalFence(fence, { event })
  expect(() => agent.signalFence(fence, { event })).toThrow(/has an event already/)
  const code = (name: string) => expect.objectContaining({ code: name })
  expect(() => importDeviceEvent({ device: 0, handle: new Uint8Array(63) })).toThrow(
    code('ERR_KV_MESSAGE_INVALID'),
  )
  expect(() => importDeviceEvent({ device: 0, handle: new Uint8Array(64) })).toThrow(
    code('ERR_CUDA'),
  )
  expect(() => importDeviceEvent({ device: 0, handle: event.exportHandle() })).toThrow(
    code('ERR_CUDA'),
  )
  expect(() => importDeviceEvent({ device: 0, event: 0n })).toThrow(RangeError)
  const borrowed = importDeviceEvent({ device: 0, event: 4_096n })
  expect(() => borrowed.record(0n)).toThrow(code('ERR_KV_UNSUPPORTED'))
  expect(() => borrowed.exportHandle()).toThrow(code('ERR_KV_UNSUPPORTED'))
})

test('fences by events that nobody waits for are given back: an engine makes one in every step', () => {
  for (let index = 0; index < 2 * fenceCountMax; index += 1) {
    const fence = agent.createFence()
    event.record(0n)
    agent.signalFence(fence, { event })
  }
})
