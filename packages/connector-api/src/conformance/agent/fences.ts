/** A7: posts that wait for a moment. */
import { limits } from '../../limits.ts'
import type { FenceHandle } from '../../transfer-agent.ts'
import type { GroupRuns } from './clause-run.ts'
import { bytesOf, quietMs } from './context.ts'
import { assert, assertRefused, assertSameBytes } from './expect.ts'
import { blocks, createPair, fillPair, postOf, smallPost } from './fixtures.ts'

export const fences: GroupRuns<'A7'> = {
  async 'A7.1'(context) {
    const pair = await createPair(context)
    await fillPair(context, pair, 40)
    const before = bytesOf(pair.local.memories[0]!).slice()
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    await context.quiet()
    assert.deepEqual(context.recorder.completions, [])
    assertSameBytes(bytesOf(pair.local.memories[0]!), before, 'local memory')
    context.agent.signalFence(fence)
    const { times } = await context.done(transfer)
    assert.ok(times.queuedUs >= quietMs * 900, `queued for ${times.queuedUs} us`)
  },
  async 'A7.2'(context) {
    const pair = await createPair(context)
    const source = (await fillPair(context, pair, 41))[0]!
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    await context.quiet()
    const changed = source.map((byte) => byte ^ 0xff)
    await context.wait(pair.remote.owner.writeMemory(pair.remote.id, 0, changed))
    context.agent.signalFence(fence)
    await context.done(transfer)
    const lead = pair.local.regions[0]!.leadBytes
    const actual = bytesOf(pair.local.memories[0]!).subarray(lead + 256, lead + 512)
    assertSameBytes(actual, changed.subarray(lead + 512, lead + 768), 'local block')
  },
  async 'A7.3'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    context.agent.signalFence(fence)
    await context.quiet()
    await context.done(context.postOne({ ...smallPost(pair), after: fence }))
    await context.done(context.postOne({ ...smallPost(pair), after: fence }))
  },
  async 'A7.4'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    const posts = Array.from({ length: 8 }, () => ({ ...smallPost(pair), after: fence }))
    const handles = context.agent.post(posts)
    await context.quiet()
    assert.deepEqual(context.recorder.completions, [])
    context.agent.signalFence(fence)
    context.agent.signalFence(fence)
    for (const handle of handles) await context.done(handle)
    context.agent.signalFence(fence)
    await context.quiet()
    assert.equal(context.recorder.completions.length, handles.length)
  },
  async 'A7.5'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    const held = context.postOne({ ...smallPost(pair), after: fence })
    const exchange = { direction: 'read', local: blocks(5), remote: blocks(6) } as const
    await context.done(context.postOne(postOf(pair, exchange)))
    assert.deepEqual(context.recorder.finals(held), [])
    context.agent.signalFence(fence)
    await context.done(held)
  },
  async 'A7.6'(context) {
    const pair = await createPair(context)
    for (const value of [-1, NaN, 0.5, 2 ** 52 + 1]) {
      const after = { handle: value as FenceHandle }
      await assertRefused(`fence ${value}`, ['RangeError', 'TypeError'], () =>
        context.agent.post([{ ...smallPost(pair), after }]),
      )
    }
  },
  async 'A7.7'(context) {
    const pair = await createPair(context)
    const after = context.createFence()
    const options = { waitUntilPosted: true }
    const [transfer] = context.agent.post([{ ...smallPost(pair), after }], options)
    await context.quiet()
    assert.deepEqual(context.recorder.completions, [])
    context.agent.signalFence(after)
    await context.done(transfer!)
  },
  async 'A7.8'(context) {
    const pair = await createPair(context)
    await fillPair(context, pair, 42)
    const before = bytesOf(pair.local.memories[0]!).slice()
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence, deadlineMs: 30 })
    const final = await context.final(transfer)
    assert.equal(final.status === 'failed' && final.error.code, 'ERR_KV_DEADLINE')
    context.agent.signalFence(fence)
    await context.quiet()
    assert.equal(context.recorder.completions.length, 1)
    assertSameBytes(bytesOf(pair.local.memories[0]!), before, 'local memory')
  },
  async 'A7.9'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    context.agent.signalFence(fence, { inMs: limits.fenceDelayMsMax })
    await context.quiet()
    assert.deepEqual(context.recorder.completions, [])
    context.agent.signalFence(fence, { inMs: quietMs })
    context.agent.signalFence(fence, { inMs: limits.fenceDelayMsMax })
    const { times } = await context.done(transfer)
    assert.ok(times.queuedUs >= 2 * quietMs * 900, `queued for ${times.queuedUs} us`)
    for (const inMs of [-1, NaN, Infinity, limits.fenceDelayMsMax + 1]) {
      await assertRefused(`inMs ${inMs}`, ['RangeError'], () =>
        context.agent.signalFence(context.createFence(), { inMs }),
      )
    }
  },
  async 'A7.10'(context) {
    const pair = await createPair(context)
    const fence = context.createFence()
    const transfer = context.postOne({ ...smallPost(pair), after: fence })
    const event = { kind: 'cuda', device: 0 } as const
    await assertRefused('a foreign event', ['TypeError', 'ERR_KV_UNSUPPORTED'], () =>
      context.agent.signalFence(fence, { event }),
    )
    await context.quiet()
    assert.deepEqual(context.recorder.completions, [])
    context.agent.signalFence(fence)
    await context.done(transfer)
  },
}
