/**
 * Slabs of GPU memory whose addresses and lists the kernels compute: whatever the sizes, strides and ids of both sides, exactly
 * the listed blocks arrive, as a model says it byte by byte. Over the fake library and the fake driver, which run the
 * kernels' own text.
 */
import './fake-cuda.ts'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PeerHandle, TransferAgent, TransferCompletion } from '@kvferry/connector-api'
import { createDeviceAllocator, createNixlAgent, type DeviceKvMemory } from '../src/index.ts'
import { fakeLibraryPath } from './fake-library.ts'

const memoryBytes = 65_536
const device = 0

interface Side {
  readonly agent: TransferAgent
  readonly memory: DeviceKvMemory
  readonly region: Awaited<ReturnType<TransferAgent['registerRegion']>>
}

const allocator = createDeviceAllocator({ device })
let ends: (completion: TransferCompletion) => void = () => {}

async function openSide(name: string): Promise<Side> {
  // Of two sizes: a slab is as large as the smaller one.
  const slabs = { sizeBytes: name === 'here' ? 5_000 : 8_192, count: 2 }
  const agent = await createNixlAgent({ name, libraryPath: fakeLibraryPath, device, slabs })
  agent.setListener({
    onCompletions: (batch) => batch.forEach((each) => ends(each)),
    onNotifications() {},
    onBroken: (error) => expect.unreachable(String(error)),
  })
  const memory = allocator.allocate({ sizeBytes: memoryBytes })
  const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: memoryBytes })
  return { agent, memory, region }
}

let here: Side
let there: Side
let peer: PeerHandle

beforeAll(async () => {
  ;[here, there] = [await openSide('here'), await openSide('there')]
  there.agent.expectNotifications(true)
  const metadata = await there.agent.localMetadata()
  peer = await here.agent.addPeer({ metadata, expectedName: 'there' })
})
afterAll(async () => {
  await here.agent.close()
  await there.agent.close()
})

interface Shape {
  readonly regionCount: number
  readonly sizeBytes: number
  readonly gapBytes: number
  readonly ids: readonly number[]
}

/** The regions lie one behind the other, so far apart that every block fits. */
function layOut({ regionCount, sizeBytes, gapBytes }: Shape) {
  const blockStrideBytes = sizeBytes + gapBytes
  const roomBytes = Math.floor(memoryBytes / regionCount)
  const blockCount = Math.floor(roomBytes / blockStrideBytes)
  return Array.from({ length: regionCount }, (_, index) => ({
    ...{ offsetBytes: index * roomBytes, blockSizeBytes: sizeBytes, blockStrideBytes, blockCount },
  }))
}

const streamOf = (shape: Shape): number[] =>
  layOut(shape).flatMap(({ offsetBytes, blockSizeBytes, blockStrideBytes }) =>
    shape.ids.flatMap((id) =>
      Array.from({ length: blockSizeBytes }, (_, at) => offsetBytes + id * blockStrideBytes + at),
    ),
  )

/** Two sides of one length: `pieces` of `grain` bytes, in blocks of `factor` of them each. */
const shapes = fc
  .record({
    grain: fc.constantFrom(1, 7, 8, 16, 48, 400, 1_024),
    factors: fc.tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 })),
    regionCounts: fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 3 })),
    gaps: fc.tuple(fc.constantFrom(0, 3, 16), fc.constantFrom(0, 5, 16)),
    scale: fc.integer({ min: 1, max: 3 }),
    seed: fc.nat(1_000),
  })
  .map(({ grain, factors, regionCounts, gaps, scale, seed }) => {
    const total = factors[0] * factors[1] * regionCounts[0] * regionCounts[1] * scale
    return ([0, 1] as const).map((side): Shape => {
      const [sizeBytes, regionCount] = [grain * factors[side], regionCounts[side]]
      const shape = { regionCount, sizeBytes, gapBytes: gaps[side], ids: [] as number[] }
      const { blockCount } = layOut(shape)[0]!
      const idCount = total / factors[side] / regionCount
      // A step that shares no factor with the count visits every block once.
      const step = [7, 11, 13, 1].find((each) => blockCount % each !== 0) ?? 1
      for (let index = 0; index < idCount; index += 1) {
        shape.ids.push((seed + side + index * step) % blockCount)
      }
      return idCount > blockCount ? { ...shape, ids: [] } : shape
    })
  })
  .filter((sides) => sides.every(({ ids }) => ids.length > 0))

const content = (salt: number) =>
  Uint8Array.from({ length: memoryBytes }, (_, at) => (at * 167 + (at >> 8) * 13 + salt) & 255)

async function move(direction: 'read' | 'write', [mine, theirs]: readonly Shape[]) {
  const tables = [
    [here, mine!],
    [there, theirs!],
  ] as const
  const [local, exported] = tables.map(([{ agent, region }, shape]) =>
    agent.declareBlockTable(layOut(shape).map((each) => ({ region, ...each }))),
  )
  const remote = here.agent.importBlockTable(peer, there.agent.exportBlockTable(exported!))
  const ended = new Promise<TransferCompletion>((resolve) => (ends = resolve))
  here.agent.post([
    {
      ...{ direction, peer, path: 'slabs' },
      local: { table: local!, blockIds: Uint32Array.from(mine!.ids) },
      remote: { table: remote, blockIds: Uint32Array.from(theirs!.ids) },
    },
  ])
  const completion = await ended
  here.agent.releaseBlockTable(local!)
  here.agent.releaseBlockTable(remote)
  there.agent.releaseBlockTable(exported!)
  return completion
}

test('a piece that the peer has deregistered is moved neither way', async () => {
  const shape = { regionCount: 1, sizeBytes: 512, gapBytes: 0, ids: [3, 1, 7] }
  const { agent } = there
  const memory = allocator.allocate({ sizeBytes: memoryBytes })
  const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: memoryBytes })
  const table = agent.declareBlockTable(layOut(shape).map((each) => ({ region, ...each })))
  const remote = here.agent.importBlockTable(peer, agent.exportBlockTable(table))
  const local = here.agent.declareBlockTable(
    layOut(shape).map((each) => ({ region: here.region, ...each })),
  )
  agent.releaseBlockTable(table)
  await agent.deregisterRegion(region)
  const before = [content(7), content(8)]
  here.memory.write(0, before[0]!)
  memory.write(0, before[1]!)
  const blockIds = Uint32Array.from(shape.ids)
  for (const direction of ['write', 'read'] as const) {
    const ended = new Promise<TransferCompletion>((resolve) => (ends = resolve))
    here.agent.post([
      {
        ...{ direction, peer, path: 'slabs' },
        local: { table: local, blockIds },
        remote: { table: remote, blockIds },
      },
    ])
    const completion = await ended
    expect(completion).toMatchObject({ status: 'failed' })
    if (completion.status === 'failed')
      expect(completion.error.message).toMatch(/failed in slab: NOT_FOUND/)
  }
  const found = before.map(() => new Uint8Array(memoryBytes))
  here.memory.read(0, found[0]!)
  memory.read(0, found[1]!)
  expect(found.map((bytes, side) => Buffer.compare(bytes, before[side]!))).toEqual([0, 0])
})

test('one piece that the peer has deregistered: those beside it in the list are not moved either', async () => {
  const shape = { regionCount: 1, sizeBytes: 512, gapBytes: 0, ids: [3, 1, 7] }
  const { agent } = there
  const gone = allocator.allocate({ sizeBytes: memoryBytes })
  const region = await agent.registerRegion({
    ...{ memory: gone, offsetBytes: 0, lengthBytes: memoryBytes },
  })
  const [layout] = layOut(shape)
  const table = agent.declareBlockTable(
    [there.region, region].map((each) => ({ region: each, ...layout! })),
  )
  const remote = here.agent.importBlockTable(peer, agent.exportBlockTable(table))
  const local = here.agent.declareBlockTable(
    layOut({ ...shape, regionCount: 2 }).map((each) => ({ region: here.region, ...each })),
  )
  agent.releaseBlockTable(table)
  await agent.deregisterRegion(region)
  const before = content(9)
  here.memory.write(0, content(10))
  there.memory.write(0, before)
  const blockIds = Uint32Array.from(shape.ids)
  const ended = new Promise<TransferCompletion>((resolve) => (ends = resolve))
  here.agent.post([
    {
      ...{ direction: 'write', peer, path: 'slabs' },
      local: { table: local, blockIds },
      remote: { table: remote, blockIds },
    },
  ])
  const completion = await ended
  expect(completion).toMatchObject({ status: 'failed' })
  const found = new Uint8Array(memoryBytes)
  there.memory.read(0, found)
  expect(Buffer.compare(found, before)).toBe(0)
})

test('slabs of a GPU put every byte where the stream says, and no other', async () => {
  let slabCount = 0
  await fc.assert(
    fc.asyncProperty(shapes, fc.constantFrom('read', 'write'), async (sides, direction) => {
      const before = [content(1), content(101)]
      here.memory.write(0, before[0]!)
      there.memory.write(0, before[1]!)
      const completion = await move(direction, sides)
      const [mine, theirs] = sides.map(streamOf)
      if (completion.status !== 'done') throw completion.error
      expect(completion.times.bytes).toBe(mine!.length)
      const pieceEnds = new Set<number>()
      for (const { sizeBytes } of sides) {
        for (let at = sizeBytes; at <= mine!.length; at += sizeBytes) pieceEnds.add(at)
      }
      expect(completion.times.descriptorsBeforeMerge).toBe(pieceEnds.size)
      slabCount += completion.times.descriptorsAfterMerge
      const [source, target] = direction === 'read' ? [1, 0] : [0, 1]
      const expected = before.map((bytes) => bytes.slice())
      const streams = [mine!, theirs!]
      streams[target]!.forEach((at, index) => {
        expected[target]![at] = before[source]![streams[source]![index]!]!
      })
      const found = before.map(() => new Uint8Array(memoryBytes))
      here.memory.read(0, found[0]!)
      there.memory.read(0, found[1]!)
      found.forEach((bytes, side) => {
        expect(Buffer.compare(bytes, expected[side]!), `memory ${side}`).toBe(0)
      })
    }),
    { numRuns: 25 },
  )
  expect(slabCount).toBeGreaterThan(30)
})
