/** Fences that a GPU opens: by an event of an engine in another process, and by one of ours. */
import assert from 'node:assert/strict'
import type { AgentHarness, AgentWorld } from '@kvferry/connector-api/conformance'
import type { TransferCompletion, TransferPost } from '@kvferry/connector-api'
import { createDeviceEvent, importDeviceEvent } from '../../src/index.ts'
import type { GpuCheck } from './check.ts'
import { EventEngine, whyNoEngine } from './event-engine.ts'

const blockBytes = 4_096
const blockCount = 8
const sizeBytes = blockBytes * blockCount
const stillMs = 150
const layout = { blockSizeBytes: blockBytes, blockStrideBytes: blockBytes, blockCount }

interface Pair {
  readonly world: AgentWorld
  readonly completions: TransferCompletion[]
  readonly post: TransferPost
  /** The first byte of each of the peer's blocks. */
  theirs(): Promise<number[]>
  end(): Promise<TransferCompletion>
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** A WRITE of blocks full of 7 to blocks full of 1. */
async function openPair(world: AgentWorld): Promise<Pair> {
  const { agent, peer } = world
  const completions: TransferCompletion[] = []
  agent.setListener({
    onCompletions: (batch) => void completions.push(...batch),
    onNotifications() {},
    onBroken(error) {
      throw error
    },
  })
  const memory = world.allocator.allocate({ sizeBytes })
  memory.bytes!.set(new Uint8Array(sizeBytes).fill(7))
  const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: sizeBytes })
  const local = agent.declareBlockTable([{ region, offsetBytes: 0, ...layout }])
  const table = await peer.declareTable([{ leadBytes: 0, ...layout, tailBytes: 0 }])
  await peer.writeMemory(table.id, 0, new Uint8Array(sizeBytes).fill(1))
  await peer.expectNotifications(true)
  const handle = await agent.addPeer({ metadata: table.metadata, expectedName: peer.name })
  const blockIds = Uint32Array.from({ length: blockCount }, (_, id) => id)
  const remote = agent.importBlockTable(handle, table.exported)
  const read = async () => peer.readMemory(table.id, 0)
  return {
    ...{ world, completions },
    post: {
      ...{ direction: 'write', peer: handle },
      local: { table: local, blockIds },
      remote: { table: remote, blockIds },
    },
    theirs: async () => [...(await read())].filter((_, at) => at % blockBytes === 0),
    async end() {
      for (const end = performance.now() + 20_000; completions.length === 0; await wait(1)) {
        assert.ok(performance.now() < end, 'the transfer has no end')
      }
      return completions[0]!
    },
  }
}

const everywhere = (value: number) => Array.from({ length: blockCount }, () => value)

export function fenceChecks(harness: AgentHarness): GpuCheck[] {
  const within = async (check: (pair: Pair) => Promise<void>) => {
    const world = await harness.openWorld({ isIsolated: true })
    try {
      await check(await openPair(world))
    } finally {
      await harness.closeWorld(world, { isReusable: false })
    }
  }
  const withEngine = async (check: (pair: Pair, engine: EventEngine) => Promise<void>) => {
    const reason = whyNoEngine()
    if (reason !== null) return { skipped: reason }
    const engine = new EventEngine(0)
    try {
      await within((pair) => check(pair, engine))
    } finally {
      await engine.end()
    }
    return undefined
  }
  return [
    {
      name: 'a fence by an engine’s event: nothing moves before its GPU is there',
      run: () =>
        withEngine(async (pair, engine) => {
          const { agent } = pair.world
          const event = importDeviceEvent({ device: 0, handle: await engine.handle() })
          assert.equal(event.isDone(), false)
          const fence = agent.createFence()
          agent.post([{ ...pair.post, after: fence }])
          agent.signalFence(fence, { event })
          event.free()
          await wait(stillMs)
          assert.deepEqual([pair.completions, await pair.theirs()], [[], everywhere(1)])
          await engine.release()
          const end = await pair.end()
          assert.equal(end.status, 'done')
          assert.ok(end.status === 'done' && end.times.queuedUs >= stillMs * 1_000)
          assert.deepEqual(await pair.theirs(), everywhere(7))
        }),
    },
    {
      name: 'a fence by an event that never comes: the post’s deadline ends it, nothing moved',
      run: () =>
        withEngine(async (pair, engine) => {
          const { agent } = pair.world
          const event = importDeviceEvent({ device: 0, handle: await engine.handle() })
          const fence = agent.createFence()
          agent.signalFence(fence, { event })
          agent.post([{ ...pair.post, after: fence, deadlineMs: stillMs }])
          const end = await pair.end()
          assert.equal(end.status === 'failed' && end.error.code, 'ERR_KV_DEADLINE')
          await engine.release()
          await wait(stillMs)
          assert.deepEqual([pair.completions.length, await pair.theirs()], [1, everywhere(1)])
        }),
    },
    {
      name: 'an event of ours: refused while it means nothing, and a fence by it opens',
      run: () =>
        within(async (pair) => {
          const { agent } = pair.world
          const event = createDeviceEvent({ device: 0 })
          const fence = agent.createFence()
          agent.post([{ ...pair.post, after: fence }])
          assert.equal(event.isDone(), false)
          assert.throws(() => agent.signalFence(fence, { event }), RangeError)
          await wait(stillMs)
          assert.deepEqual(pair.completions, [])
          event.record(0n)
          assert.equal(event.exportHandle().length, 64)
          agent.signalFence(fence, { event })
          assert.equal((await pair.end()).status, 'done')
          assert.deepEqual(await pair.theirs(), everywhere(7))
          event.free()
          assert.throws(() => event.isDone(), RangeError)
        }),
    },
  ]
}
