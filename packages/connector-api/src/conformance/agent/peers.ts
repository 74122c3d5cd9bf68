/** A2: metadata and peers. */
import { limits } from '../../limits.ts'
import { createSeededRandom } from '../../testing/seeded-random.ts'
import type { GroupRuns } from './clause-run.ts'
import { assert, assertRefused } from './expect.ts'
import { bytesOf } from './context.ts'
import { blocks, checkExchange, checkUnharmed, createPair, denseRegion } from './fixtures.ts'
import { fillPair, smallPost } from './fixtures.ts'
import { assertSameBytes } from './expect.ts'

export const peers: GroupRuns<'A2'> = {
  async 'A2.1'(context) {
    await context.local([denseRegion(256, 4)])
    const metadata = await context.wait(context.agent.localMetadata())
    assert.ok(metadata.length > 0)
    assert.ok(metadata.length <= limits.agentMetadataSizeBytesMax)
  },
  async 'A2.2'(context) {
    const metadata = await context.wait(context.peer.metadata())
    await assertRefused('another name', 'ERR_KV_PEER_INCOMPATIBLE', () =>
      context.wait(context.agent.addPeer({ metadata, expectedName: 'someone-else' })),
    )
    // The refused peer must not stay behind half loaded.
    await checkUnharmed(context, await createPair(context))
  },
  async 'A2.3'(context) {
    const metadata = await context.wait(context.peer.metadata())
    const random = createSeededRandom(11)
    const hostile = [new Uint8Array(0), random.bytes(1), random.bytes(300), random.bytes(4_096)]
    const cutCount = Math.min(24, metadata.length)
    for (let cut = 0; cut < cutCount; cut += 1) {
      hostile.push(metadata.slice(0, Math.floor((cut * metadata.length) / cutCount)))
    }
    const { name: expectedName } = context.peer
    for (const bytes of hostile) {
      await assertRefused(
        `metadata of ${bytes.length} bytes`,
        ['ERR_KV_MESSAGE_INVALID', 'ERR_NIXL', 'ERR_KV_PEER_INCOMPATIBLE'],
        () => context.wait(context.agent.addPeer({ metadata: bytes, expectedName })),
      )
    }
    await checkUnharmed(context, await createPair(context))
  },
  async 'A2.4'(context) {
    const metadata = new Uint8Array(limits.agentMetadataSizeBytesMax + 1)
    const { name: expectedName } = context.peer
    await assertRefused('too long', ['ERR_KV_LIMIT', 'ERR_KV_MESSAGE_INVALID'], () =>
      context.wait(context.agent.addPeer({ metadata, expectedName })),
    )
  },
  async 'A2.5'(context) {
    const pair = await createPair(context)
    const post = smallPost(pair)
    await context.wait(context.agent.removePeer(pair.remote.peer))
    await context.wait(context.agent.removePeer(pair.remote.peer))
    await assertRefused('post', 'RangeError', () => context.agent.post([post]))
    await assertRefused('table', 'RangeError', () =>
      context.agent.describeBlockTable(pair.remote.table),
    )
    await assertRefused('import', 'RangeError', () =>
      context.agent.importBlockTable(pair.remote.peer, new Uint8Array(16)),
    )
  },
  async 'A2.6'(context) {
    for (let round = 0; round < 3; round += 1) {
      // `remote` removes the peer and adds it again.
      const pair = await createPair(context)
      const direction = round === 1 ? 'write' : 'read'
      const exchange = { direction, local: blocks(0, 3), remote: blocks(2, 1) } as const
      await checkExchange(context, pair, exchange, round)
    }
  },
  async 'A2.7'(context) {
    const listed = await context.wait(context.peer.declareTable([denseRegion(256, 4)]))
    const unlisted = await context.wait(context.peer.declareTable([denseRegion(256, 4)]))
    await context.wait(context.peer.expectNotifications(true))
    const peer = await context.addPeer(listed.metadata)
    const regions = [denseRegion(256, 4)]
    const local = await context.local(regions)
    const table = context.track(context.agent.importBlockTable(peer, unlisted.exported))
    const remote = { table, regions, id: unlisted.id, owner: context.peer, peer }
    const pair = { local, remote }
    const before = await fillPair(context, pair, 3)
    const localBefore = bytesOf(local.memories[0]!).slice()
    for (const direction of ['read', 'write'] as const) {
      const final = await context.final(context.postOne(smallPost(pair, direction)))
      assert.equal(final.status, 'failed', direction)
    }
    assertSameBytes(bytesOf(local.memories[0]!), localBefore, 'local memory')
    assertSameBytes((await context.readMemories(remote))[0]!, before[0]!, 'remote memory')
  },
  async 'A2.8'(context) {
    const pair = await createPair(context)
    const metadata = await context.wait(context.peer.metadata())
    const options = { metadata, expectedName: context.peer.name }
    const again = await context.wait(context.agent.addPeer(options))
    await assertRefused('the older handle', 'RangeError', () =>
      context.agent.post([smallPost(pair)]),
    )
    await assertRefused('the older table', 'RangeError', () =>
      context.agent.describeBlockTable(pair.remote.table),
    )
    await context.wait(context.agent.removePeer(again))
    await checkUnharmed(context, await createPair(context))
  },
  async 'A2.9'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    await context.wait(context.agent.removePeer(pair.remote.peer))
    const metadata = await context.wait(context.peer.metadata())
    const options = { metadata, expectedName: context.peer.name }
    await assertRefused('adding', 'ERR_KV_BUSY', () => context.wait(context.agent.addPeer(options)))
    context.agent.signalFence(fence)
    await context.final(transfer)
    await checkUnharmed(context, await createPair(context))
  },
}
