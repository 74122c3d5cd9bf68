/** A10: drain and close. */
import type { GroupRuns } from './clause-run.ts'
import { bytesOf, patienceMs } from './context.ts'
import { assert, assertRefused, assertSameBytes } from './expect.ts'
import { blocks, createPair, denseRegion, fillPair, postOf, smallPost } from './fixtures.ts'

export const endings: GroupRuns<'A10'> = {
  async 'A10.1'(context) {
    await context.wait(context.agent.drain({ deadlineMs: patienceMs }))
    const pair = await createPair(context)
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    let isDrained = false
    const drained = context.agent.drain({ deadlineMs: patienceMs }).then(() => {
      isDrained = true
    })
    await context.quiet()
    assert.equal(isDrained, false)
    context.agent.signalFence(fence)
    await context.wait(drained)
    assert.equal(context.agent.counters().transfersOpen, 0)
    await context.done(transfer)
  },
  async 'A10.2'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    await assertRefused('drain', 'ERR_KV_DEADLINE', () =>
      context.wait(context.agent.drain({ deadlineMs: 20 })),
    )
    // It only waited: the transfer lives on.
    context.agent.signalFence(fence)
    await context.done(transfer)
  },
  async 'A10.3'(context) {
    await createPair(context)
    const { agent } = context
    await context.wait(Promise.all([agent.close(), agent.close()]))
    await context.wait(agent.close())
  },
  async 'A10.4'(context) {
    const { local, remote } = await createPair(context)
    const metadata = await context.wait(context.peer.metadata())
    const exported = context.agent.exportBlockTable(local.table)
    const post = smallPost({ local, remote })
    const memory = context.allocate(4_096)
    const { agent } = context
    await context.wait(agent.close())
    const attempts: Record<string, () => unknown> = {
      registerRegion: () => agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: 16 }),
      localMetadata: () => agent.localMetadata(),
      declareBlockTable: () => agent.declareBlockTable([]),
      importBlockTable: () => agent.importBlockTable(remote.peer, exported),
      addPeer: () => agent.addPeer({ metadata, expectedName: context.peer.name }),
      createFence: () => agent.createFence(),
      post: () => agent.post([post]),
      notify: () => agent.notify(remote.peer, Uint8Array.of(1)),
    }
    for (const [name, attempt] of Object.entries(attempts)) {
      await assertRefused(name, 'ERR_KV_CLOSED', () => context.wait((async () => attempt())()))
    }
  },
  async 'A10.5'(context) {
    const blockBytes = 512 * 1_024
    const pair = await createPair(context, [denseRegion(blockBytes, 4)])
    const source = (await fillPair(context, pair, 60))[0]!
    const handles = context.agent.post(
      [0, 1, 2, 3].map((index) =>
        postOf(pair, { direction: 'read', local: blocks(index), remote: blocks(index) }),
      ),
    )
    await context.wait(context.agent.close({ deadlineMs: patienceMs }))
    for (const handle of handles) {
      const [final] = context.recorder.finals(handle)
      assert.equal(final?.status, 'done', 'reported before close resolved')
    }
    const { leadBytes } = pair.local.regions[0]!
    const end = leadBytes + 4 * blockBytes
    const local = bytesOf(pair.local.memories[0]!)
    assertSameBytes(
      local.subarray(leadBytes, end),
      source.subarray(leadBytes, end),
      'what was read',
    )
  },
  async 'A10.6'(context) {
    const pair = await createPair(context)
    context.postOne({ ...smallPost(pair), after: context.createFence() })
    await context.wait(context.agent.close({ deadlineMs: 30 }))
    for (const memory of pair.local.memories) memory.free()
  },
  async 'A10.7'(context) {
    const pair = await createPair(context)
    await fillPair(context, pair, 61)
    const before = bytesOf(pair.local.memories[0]!).slice()
    const fence = context.createFence()
    context.postOne({ ...smallPost(pair), after: fence })
    await context.wait(context.agent.close({ deadlineMs: 20 }))
    const heard = context.recorder.completions.length
    context.agent.signalFence(fence)
    await context.quiet()
    assert.equal(context.recorder.completions.length, heard)
    assertSameBytes(bytesOf(pair.local.memories[0]!), before, 'local memory')
  },
}
