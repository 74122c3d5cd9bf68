/** A4: which bytes move where, and that no other byte changes. */
import { createSeededRandom } from '../../testing/seeded-random.ts'
import type { SeededRandom } from '../../testing/seeded-random.ts'
import { peerRegionSizeBytes } from '../../testing/agent-peer.ts'
import type { PeerRegion } from '../../testing/agent-peer.ts'
import type { GroupRuns } from './clause-run.ts'
import { bytesOf } from './context.ts'
import { assert, assertSameBytes } from './expect.ts'
import { blocks, checkExchange, createPair, denseRegion, fillPair } from './fixtures.ts'
import { gappedRegion, postOf } from './fixtures.ts'
import type { SideModel } from './stream-model.ts'

/** A random order of `count` numbers. */
function shuffled(random: SeededRandom, count: number): number[] {
  const order = Array.from({ length: count }, (_, index) => index)
  for (let index = count - 1; index > 0; index -= 1) {
    const other = random.integer(index + 1)
    ;[order[index], order[other]] = [order[other]!, order[index]!]
  }
  return order
}

/** Disjoint segments of these regions in random order, `totalBytes` in all. */
function randomSegments(
  random: SeededRandom,
  regions: readonly PeerRegion[],
  totalBytes: number,
): SideModel {
  const pieces = regions.flatMap((layout, region) => {
    const size = peerRegionSizeBytes(layout) - layout.leadBytes - layout.tailBytes
    const found: { region: number; offset: number; length: number }[] = []
    let offset = random.integer(3)
    while (offset < size) {
      const length = Math.min(1 + random.integer(random.chance(0.5) ? 8 : 90), size - offset)
      found.push({ region, offset, length })
      // No gap often, so that neighbours exist.
      offset += length + (random.chance(0.7) ? 0 : random.integer(3))
    }
    return found
  })
  const order = random.chance(0.3)
    ? pieces.map((_, index) => index)
    : shuffled(random, pieces.length)
  const segments: { region: number; offset: number; length: number }[] = []
  let left = totalBytes
  for (const index of order) {
    const piece = pieces[index]!
    const length = Math.min(piece.length, left)
    if (length === 0) break
    segments.push({ ...piece, length })
    left -= length
  }
  assert.equal(left, 0, 'the regions are too small for this plan')
  return { segments }
}

export const bytes: GroupRuns<'A4'> = {
  async 'A4.1'(context) {
    const pair = await createPair(context, [denseRegion(512, 16)])
    await checkExchange(context, pair, {
      direction: 'read',
      local: blocks(14, 0, 7, 3, 9),
      remote: blocks(2, 15, 1, 8, 0),
    })
  },
  async 'A4.2'(context) {
    const pair = await createPair(context, [denseRegion(512, 16)])
    await checkExchange(context, pair, {
      direction: 'write',
      local: blocks(5, 15, 2, 0, 11),
      remote: blocks(15, 3, 4, 9, 0),
    })
  },
  async 'A4.3'(context) {
    const pair = await createPair(context, [denseRegion(128, 32)])
    const cases: [number[], number[], number][] = [
      // Both sides ascend together: one run.
      [[4, 5, 6, 7], [20, 21, 22, 23], 1],
      // Two runs of two.
      [[4, 5, 10, 11], [20, 21, 22, 23], 2],
      // Neighbours on one side only.
      [[4, 5, 6], [9, 12, 15], 3],
      [[4, 8, 12], [9, 10, 11], 3],
      // Same set, but paired in another order: merging by sorting would swap blocks.
      [[4, 5, 6], [22, 21, 20], 3],
      [[1, 2, 3, 4], [8, 9, 11, 10], 3],
    ]
    for (const direction of ['read', 'write'] as const) {
      for (const [local, remote, runs] of cases) {
        const exchange = { direction, local: blocks(...local), remote: blocks(...remote) }
        const { times } = await checkExchange(context, pair, exchange)
        assert.equal(times.descriptorsBeforeMerge, local.length)
        // By slabs nothing is merged: a slab travels as a whole, and what a READ wants before it. By `ipc` all is one kernel.
        const byPath = { descriptors: runs, slabs: direction === 'read' ? 2 : 1, ipc: 1 }
        const handedOver = byPath[context.world.path ?? 'descriptors']
        assert.equal(times.descriptorsAfterMerge, handedOver, `${local} with ${remote}`)
      }
    }
  },
  async 'A4.4'(context) {
    const pair = await createPair(context, [denseRegion(256, 8), denseRegion(256, 8)])
    const local: SideModel = {
      segments: [
        { region: 1, offset: 3, length: 1 },
        { region: 0, offset: 250, length: 13 },
        { region: 1, offset: 2_047, length: 1 },
        { region: 0, offset: 0, length: 85 },
      ],
    }
    const remote: SideModel = {
      segments: [
        { region: 0, offset: 1_999, length: 1 },
        { region: 0, offset: 7, length: 13 },
        { region: 1, offset: 0, length: 1 },
        { region: 1, offset: 1_963, length: 85 },
      ],
    }
    await checkExchange(context, pair, { direction: 'read', local, remote })
    await checkExchange(context, pair, { direction: 'write', local, remote })
  },
  async 'A4.5'(context) {
    const pair = await createPair(context, [denseRegion(384, 8)], [denseRegion(128, 24)])
    const local = blocks(3, 0)
    const remote = blocks(1, 9, 2, 20, 21, 7)
    await checkExchange(context, pair, { direction: 'read', local, remote })
    await checkExchange(context, pair, { direction: 'write', local, remote })
  },
  async 'A4.6'(context) {
    const pair = await createPair(context, [gappedRegion(200, 10)], [gappedRegion(200, 12)])
    const local = blocks(0, 1, 2, 9, 3)
    const remote = blocks(11, 4, 5, 6, 0)
    await checkExchange(context, pair, { direction: 'read', local, remote })
    await checkExchange(context, pair, { direction: 'write', local, remote })
  },
  async 'A4.7'(context) {
    const regions = [denseRegion(64, 8), gappedRegion(256, 8), denseRegion(64, 8)]
    const pair = await createPair(context, regions)
    const local = blocks(7, 2, 3)
    const remote = blocks(0, 1, 6)
    const { times } = await checkExchange(context, pair, { direction: 'read', local, remote })
    assert.equal(times.descriptorsBeforeMerge, 9)
    assert.equal(times.bytes, 3 * (64 + 256 + 64))
    await checkExchange(context, pair, { direction: 'write', local, remote })
  },
  async 'A4.8'(context) {
    const pair = await createPair(context, [denseRegion(256, 32)])
    const remoteBytes = (await fillPair(context, pair, 4))[0]!
    const posts = Array.from({ length: 16 }, (_, index) =>
      postOf(pair, { direction: 'read', local: blocks(index), remote: blocks(31 - index) }),
    )
    const handles = context.agent.post(posts)
    assert.equal(new Set(handles).size, posts.length)
    for (const handle of handles) await context.done(handle)
    const local = bytesOf(pair.local.memories[0]!)
    const lead = pair.local.regions[0]!.leadBytes
    posts.forEach((_, index) => {
      const start = lead + index * 256
      const source = lead + (31 - index) * 256
      const expected = remoteBytes.subarray(source, source + 256)
      assertSameBytes(local.subarray(start, start + 256), expected, `post ${index}`)
    })
  },
  async 'A4.9'(context) {
    const pair = await createPair(context, [denseRegion(128, 8)])
    await checkExchange(context, pair, {
      direction: 'read',
      local: blocks(0, 1, 5),
      remote: blocks(6, 6, 6),
    })
    await checkExchange(context, pair, {
      direction: 'write',
      local: blocks(2, 2),
      remote: blocks(0, 7),
    })
  },
  async 'A4.10'(context) {
    const pair = await createPair(context, [denseRegion(128, 8)])
    const segments: SideModel = {
      segments: [
        { region: 0, offset: 64, length: 192 },
        { region: 0, offset: 960, length: 64 },
      ],
    }
    const ids = blocks(7, 0)
    await checkExchange(context, pair, { direction: 'read', local: ids, remote: segments })
    await checkExchange(context, pair, { direction: 'write', local: ids, remote: segments })
    await checkExchange(context, pair, { direction: 'read', local: segments, remote: ids })
  },
  async 'A4.11'(context) {
    const random = createSeededRandom(2_024)
    const localRegions = [denseRegion(48, 16), gappedRegion(112, 16)]
    const remoteRegions = [gappedRegion(40, 20), denseRegion(96, 20), denseRegion(8, 20)]
    const pair = await createPair(context, localRegions, remoteRegions)
    for (let round = 0; round < 16; round += 1) {
      const direction = random.chance(0.5) ? 'read' : 'write'
      const idCount = 1 + random.integer(8)
      const local =
        round % 2 === 0
          ? randomSegments(random, localRegions, idCount * 144)
          : blocks(...shuffled(random, 16).slice(0, idCount))
      const totalBytes = round % 2 === 0 ? idCount * 144 : idCount * 160
      const remote =
        round % 2 === 0
          ? blocks(...shuffled(random, 20).slice(0, idCount))
          : randomSegments(random, remoteRegions, totalBytes)
      await checkExchange(context, pair, { direction, local, remote }, round)
    }
  },
  async 'A4.12'(context) {
    const sizeBytes = 2 * 2 ** 20 + 13
    const pair = await createPair(context, [denseRegion(sizeBytes, 2)])
    const local = blocks(0)
    const remote = blocks(1)
    await checkExchange(context, pair, { direction: 'read', local, remote })
    await checkExchange(context, pair, { direction: 'write', local, remote })
  },
}
