/** A5: what the listener is told, how often and when. */
import type { GroupRuns } from './clause-run.ts'
import { bytesOf } from './context.ts'
import { assert, assertRefused, assertSameBytes } from './expect.ts'
import { blocks, createPair, denseRegion, fillPair, postOf, smallPost } from './fixtures.ts'

const largeBlockBytes = 512 * 1_024

export const completions: GroupRuns<'A5'> = {
  async 'A5.1'(context) {
    const pair = await createPair(context)
    let isInside = false
    let heardInside = 0
    context.recorder.onCompletion = () => {
      if (isInside) heardInside += 1
    }
    for (let round = 0; round < 8; round += 1) {
      isInside = true
      const transfer = context.postOne(smallPost(pair, round % 2 === 0 ? 'read' : 'write'))
      isInside = false
      await context.done(transfer)
    }
    assert.equal(heardInside, 0)
  },
  async 'A5.2'(context) {
    const pair = await createPair(context)
    const handles = context.agent.post(Array.from({ length: 64 }, () => smallPost(pair)))
    for (const handle of handles) await context.final(handle)
    await context.quiet()
    for (const handle of handles) assert.equal(context.recorder.finals(handle).length, 1)
    assert.equal(context.recorder.completions.length, handles.length)
  },
  async 'A5.3'(context) {
    const pair = await createPair(context, [denseRegion(largeBlockBytes, 2)])
    const source = (await fillPair(context, pair, 5))[0]!
    const { leadBytes } = pair.local.regions[0]!
    let seen: Uint8Array | null = null
    context.recorder.onCompletion = () => {
      seen = bytesOf(pair.local.memories[0]!).slice()
    }
    const exchange = { direction: 'read', local: blocks(0), remote: blocks(1) } as const
    await context.done(context.postOne(postOf(pair, exchange)))
    const at = leadBytes + largeBlockBytes
    const expected = source.subarray(at, at + largeBlockBytes)
    const actual = seen!.subarray(leadBytes, leadBytes + largeBlockBytes)
    assertSameBytes(actual, expected, 'bytes at the completion')
  },
  async 'A5.4'(context) {
    const pair = await createPair(context, [denseRegion(largeBlockBytes, 2)])
    await fillPair(context, pair, 6)
    const { leadBytes } = pair.local.regions[0]!
    const exchange = { direction: 'write', local: blocks(1), remote: blocks(0) } as const
    const transfer = context.postOne(postOf(pair, exchange))
    // Asked for from inside the listener, so as early as anyone can.
    const read = new Promise<Uint8Array>((resolve, reject) => {
      context.recorder.onCompletion = () => {
        pair.remote.owner.readMemory(pair.remote.id, 0).then(resolve, reject)
      }
    })
    await context.done(transfer)
    const actual = (await context.wait(read)).subarray(leadBytes, leadBytes + largeBlockBytes)
    const at = leadBytes + largeBlockBytes
    const expected = bytesOf(pair.local.memories[0]!).subarray(at, at + largeBlockBytes)
    assertSameBytes(actual, expected, 'bytes at the peer')
  },
  async 'A5.5'(context) {
    const pair = await createPair(context)
    const exchange = { direction: 'read', local: blocks(3, 4, 9), remote: blocks(0, 1, 2) } as const
    const { times } = await context.done(context.postOne(postOf(pair, exchange)))
    for (const name of ['queuedUs', 'prepareUs', 'postUs', 'wireUs'] as const) {
      const value = times[name]
      assert.ok(value >= 0 && value < 60_000_000, `${name}: ${value}`)
    }
    assert.ok(times.prepareUs <= times.postUs, `prepareUs: ${times.prepareUs}`)
    assert.equal(times.bytes, 3 * 256)
    assert.equal(times.descriptorsBeforeMerge, 3)
    // By slabs: one WRITE of what is wanted, one READ of it. By `ipc`: one kernel.
    assert.equal(times.descriptorsAfterMerge, context.world.path === 'ipc' ? 1 : 2)
  },
  async 'A5.6'(context) {
    const pair = await createPair(context)
    const before = context.agent.counters()
    const fence = context.createFence()
    const held = context.postOne({ ...smallPost(pair), after: fence })
    assert.equal(context.agent.counters().transfersOpen, before.transfersOpen + 1)
    context.agent.signalFence(fence)
    await context.done(held)
    await context.done(context.postOne(smallPost(pair, 'write')))
    const after = context.agent.counters()
    assert.equal(after.transfersPosted - before.transfersPosted, 2)
    assert.equal(after.transfersDone - before.transfersDone, 2)
    assert.equal(after.transfersFailed, before.transfersFailed)
    assert.equal(after.transfersOpen, before.transfersOpen)
    assert.equal(after.transfersDraining, 0)
    assert.equal(after.bytesMoved - before.bytesMoved, 512)
  },
  async 'A5.7'(context) {
    const pair = await createPair(context)
    await fillPair(context, pair, 7)
    const local = bytesOf(pair.local.memories[0]!).slice()
    const { transfersPosted } = context.agent.counters()
    const good = smallPost(pair)
    const bad = postOf(pair, { direction: 'read', local: blocks(1), remote: blocks(16) })
    await assertRefused('the list', 'RangeError', () => context.agent.post([good, bad]))
    await context.quiet()
    assert.equal(context.agent.counters().transfersPosted, transfersPosted)
    assert.deepEqual(context.recorder.completions, [])
    assertSameBytes(bytesOf(pair.local.memories[0]!), local, 'local memory')
  },
  async 'A5.8'(context) {
    assert.deepEqual(context.agent.post([]), [])
  },
  async 'A5.9'(context) {
    const pair = await createPair(context)
    const source = (await fillPair(context, pair, 8))[0]!
    let isInside = true
    let heardInside = 0
    context.recorder.onCompletion = () => {
      if (isInside) heardInside += 1
    }
    const posts = [smallPost(pair), smallPost(pair, 'write')]
    const handles = context.agent.post(posts, { waitUntilPosted: true })
    isInside = false
    assert.equal(handles.length, 2)
    for (const handle of handles) await context.done(handle)
    await context.quiet()
    assert.equal(heardInside, 0)
    assert.equal(context.recorder.completions.length, 2)
    const lead = pair.local.regions[0]!.leadBytes
    const actual = bytesOf(pair.local.memories[0]!).subarray(lead + 256, lead + 512)
    assertSameBytes(actual, source.subarray(lead + 512, lead + 768), 'local block 1')
  },
}
