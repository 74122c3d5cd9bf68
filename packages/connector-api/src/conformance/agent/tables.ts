/** A3: block tables. */
import { limits } from '../../limits.ts'
import { createSeededRandom } from '../../testing/seeded-random.ts'
import type { BlockTableRegion } from '../../transfer-agent.ts'
import type { GroupRuns } from './clause-run.ts'
import { assert, assertRefused } from './expect.ts'
import { checkUnharmed, createPair, denseRegion, gappedRegion, smallPost } from './fixtures.ts'

const layout = { blockSizeBytes: 64, blockStrideBytes: 64, blockCount: 4 }

export const tables: GroupRuns<'A3'> = {
  async 'A3.1'(context) {
    const regions = [gappedRegion(64, 9), denseRegion(256, 9)]
    const { local, remote } = await createPair(context, regions)
    for (const table of [local.table, remote.table]) {
      const { blockCount, blockSizesBytes } = context.agent.describeBlockTable(table)
      assert.equal(blockCount, 9)
      assert.deepEqual([...blockSizesBytes], [64, 256])
    }
  },
  async 'A3.2'(context) {
    // 1,024 bytes of a larger memory: the region is the bound, not the memory.
    const region = await context.register(context.allocate(4_096), 512, 1_024)
    const good: BlockTableRegion = { region, offsetBytes: 0, ...layout }
    const bad: Partial<BlockTableRegion>[] = [
      { blockCount: 0 },
      { blockCount: 17 },
      { blockCount: 2.5 },
      { blockSizeBytes: 0 },
      { blockSizeBytes: -64 },
      { blockSizeBytes: 65 },
      { blockStrideBytes: 63 },
      { blockStrideBytes: 400 },
      { blockStrideBytes: NaN },
      { offsetBytes: -1 },
      { offsetBytes: 769 },
      { offsetBytes: 0.5 },
      { blockStrideBytes: 2 ** 52, blockCount: 2 ** 20 },
    ]
    for (const change of bad) {
      await assertRefused(JSON.stringify(change), 'RangeError', () =>
        context.agent.declareBlockTable([{ ...good, ...change }]),
      )
    }
    context.track(context.agent.declareBlockTable([{ ...good, offsetBytes: 768 }]))
  },
  async 'A3.3'(context) {
    const region = await context.register(context.allocate(4_096))
    await context.deregister(region)
    await assertRefused('declare', 'RangeError', () =>
      context.agent.declareBlockTable([{ region, offsetBytes: 0, ...layout }]),
    )
  },
  async 'A3.4'(context) {
    const regions = [denseRegion(64, 4), denseRegion(64, 4)]
    const { exported, metadata } = await context.wait(context.peer.declareTable(regions))
    const peer = await context.addPeer(metadata)
    const random = createSeededRandom(12)
    const extended = new Uint8Array(exported.length + 1)
    extended.set(exported)
    const hostile = [random.bytes(1), random.bytes(exported.length), random.bytes(4_096), extended]
    for (let length = 0; length < exported.length; length += 1) {
      hostile.push(exported.slice(0, length))
    }
    for (const bytes of hostile) {
      await assertRefused(`an export of ${bytes.length} bytes`, 'ERR_KV_MESSAGE_INVALID', () =>
        context.agent.importBlockTable(peer, bytes),
      )
    }
    context.track(context.agent.importBlockTable(peer, exported))
  },
  async 'A3.5'(context) {
    const pair = await createPair(context)
    const post = smallPost(pair)
    context.agent.releaseBlockTable(pair.local.table)
    context.agent.releaseBlockTable(pair.local.table)
    await assertRefused('post', 'RangeError', () => context.agent.post([post]))
    await assertRefused('export', 'RangeError', () =>
      context.agent.exportBlockTable(pair.local.table),
    )
    context.agent.releaseBlockTable(pair.remote.table)
    await assertRefused('describe', 'RangeError', () =>
      context.agent.describeBlockTable(pair.remote.table),
    )
  },
  async 'A3.6'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    for (const table of [pair.local.table, pair.remote.table]) {
      await assertRefused('release', 'ERR_KV_BUSY', () => context.agent.releaseBlockTable(table))
    }
    context.agent.signalFence(fence)
    await context.done(transfer)
    context.agent.releaseBlockTable(pair.local.table)
    context.agent.releaseBlockTable(pair.remote.table)
  },
  async 'A3.7'(context) {
    const pair = await createPair(context)
    const region = pair.local.regionHandles[0]!
    const many = Array.from({ length: limits.regionCountMax + 1 }, () => {
      return { region, offsetBytes: 0, ...layout }
    })
    for (const regions of [[], many]) {
      await assertRefused(`${regions.length} regions`, ['RangeError', 'ERR_KV_LIMIT'], () =>
        context.agent.declareBlockTable(regions),
      )
    }
    await checkUnharmed(context, pair)
  },
}
