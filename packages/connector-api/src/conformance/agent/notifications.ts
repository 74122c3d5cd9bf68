/** A6: notifications in both directions. */
import { limits } from '../../limits.ts'
import type { GroupRuns } from './clause-run.ts'
import { bytesOf } from './context.ts'
import type { ClauseContext } from './context.ts'
import { assert, assertRefused, assertSameBytes } from './expect.ts'
import { blocks, createPair, denseRegion, fillPair, patternOf, postOf } from './fixtures.ts'
import { smallPost } from './fixtures.ts'

const textOf = (message: Uint8Array): string => new TextDecoder().decode(message)
const messageOf = (text: string): Uint8Array => new TextEncoder().encode(text)

/** The peer knows the agent under test, so that it can send. */
async function connectBack(context: ClauseContext): Promise<void> {
  const metadata = await context.wait(context.agent.localMetadata())
  const { name: expectedName } = context.agent
  await context.wait(context.peer.connect({ metadata, expectedName }))
}

export const notifications: GroupRuns<'A6'> = {
  async 'A6.1'(context) {
    const blockBytes = 512 * 1_024
    const pair = await createPair(context, [denseRegion(blockBytes, 2)])
    await context.wait(context.peer.watchMemory({ tableId: pair.remote.id, regionIndex: 0 }))
    const { leadBytes } = pair.local.regions[0]!
    for (let round = 0; round < 4; round += 1) {
      await fillPair(context, pair, 20 + round)
      const exchange = { direction: 'write', local: blocks(1), remote: blocks(0) } as const
      const notification = messageOf(`round ${round}`)
      context.postOne({ ...postOf(pair, exchange), notification })
      const [arrived] = await context.notificationsAtPeer(1)
      const actual = arrived!.snapshot!.subarray(leadBytes, leadBytes + blockBytes)
      const at = leadBytes + blockBytes
      const expected = bytesOf(pair.local.memories[0]!).subarray(at, at + blockBytes)
      assertSameBytes(actual, expected, `bytes at the notification of round ${round}`)
    }
  },
  async 'A6.2'(context) {
    const pair = await createPair(context)
    const texts = Array.from({ length: 32 }, (_, index) => `message ${index}`)
    const handles = context.agent.post(
      texts.map((text) => ({ ...smallPost(pair, 'write'), notification: messageOf(text) })),
    )
    for (const handle of handles) await context.done(handle)
    const arrived = await context.notificationsAtPeer(texts.length)
    await context.quiet()
    arrived.push(...(await context.notificationsAtPeer(0)))
    assert.deepEqual(arrived.map(({ message }) => textOf(message)).sort(), [...texts].sort())
    assert.ok(arrived.every(({ from }) => from === context.agent.name))
  },
  async 'A6.3'(context) {
    const pair = await createPair(context)
    const messages = [
      Uint8Array.of(0),
      Uint8Array.of(0, 0, 1, 0, 0),
      Uint8Array.from({ length: 256 }, (_, index) => index),
      patternOf(9, limits.notificationSizeBytesMax),
    ]
    for (const message of messages) {
      context.postOne({ ...smallPost(pair, 'write'), notification: message })
      const [posted] = await context.notificationsAtPeer(1)
      assertSameBytes(posted!.message, message, 'notification of a post')
      await context.wait(context.agent.notify(pair.remote.peer, message))
      const [bare] = await context.notificationsAtPeer(1)
      assertSameBytes(bare!.message, message, 'message without a transfer')
    }
  },
  async 'A6.4'(context) {
    const pair = await createPair(context)
    const message = new Uint8Array(limits.notificationSizeBytesMax + 1)
    await assertRefused('post', ['RangeError', 'ERR_KV_LIMIT'], () =>
      context.agent.post([{ ...smallPost(pair, 'write'), notification: message }]),
    )
    await assertRefused('notify', ['RangeError', 'ERR_KV_LIMIT'], () =>
      context.wait(context.agent.notify(pair.remote.peer, message)),
    )
    await context.quiet()
    assert.deepEqual(await context.notificationsAtPeer(0), [])
  },
  async 'A6.5'(context) {
    const { remote } = await createPair(context)
    const message = messageOf('read-done')
    const sent = context.agent.notify(remote.peer, message)
    // The message is copied at the call.
    message.fill(0)
    await context.wait(sent)
    const [arrived] = await context.notificationsAtPeer(1)
    assert.equal(textOf(arrived!.message), 'read-done')
    assert.equal(arrived!.from, context.agent.name)
  },
  async 'A6.6'(context) {
    await createPair(context)
    await connectBack(context)
    context.agent.expectNotifications(true)
    const texts = Array.from({ length: 40 }, (_, index) => `peer ${index}`)
    const before = context.agent.counters().notificationsReceived
    await context.wait(context.peer.notify(texts.map(messageOf)))
    const { recorder } = context
    await context.wait(recorder.until(() => recorder.notifications.length >= texts.length))
    await context.quiet()
    const arrived = recorder.notifications.map(({ message }) => textOf(message))
    assert.deepEqual(arrived.sort(), [...texts].sort())
    assert.ok(recorder.notifications.every(({ from }) => from === context.peer.name))
    assert.equal(context.agent.counters().notificationsReceived - before, texts.length)
  },
  async 'A6.7'(context) {
    await createPair(context)
    await connectBack(context)
    // A connection needs both sides once; afterwards the agent looks away.
    context.agent.expectNotifications(true)
    await context.wait(context.peer.notify([messageOf('first')]))
    const { recorder } = context
    await context.wait(recorder.until(() => recorder.notifications.length === 1))
    context.agent.expectNotifications(false)
    await context.wait(context.peer.notify([messageOf('early')]))
    await context.quiet()
    context.agent.expectNotifications(true)
    await context.wait(recorder.until(() => recorder.notifications.length === 2))
    assert.equal(textOf(recorder.notifications[1]!.message), 'early')
  },
  async 'A6.8'(context) {
    const blockBytes = 512 * 1_024
    const pair = await createPair(context, [denseRegion(blockBytes, 2)])
    const source = (await fillPair(context, pair, 30))[0]!
    const exchange = { direction: 'read', local: blocks(0), remote: blocks(1) } as const
    const transfer = context.postOne({ ...postOf(pair, exchange), notification: messageOf('done') })
    await context.notificationsAtPeer(1)
    // What the producer does then: it gives the blocks to someone else.
    const overwritten = new Uint8Array(source.length).fill(0xee)
    await context.wait(pair.remote.owner.writeMemory(pair.remote.id, 0, overwritten))
    await context.done(transfer)
    const { leadBytes } = pair.local.regions[0]!
    const local = bytesOf(pair.local.memories[0]!)
    const at = leadBytes + blockBytes
    assertSameBytes(
      local.subarray(leadBytes, leadBytes + blockBytes),
      source.subarray(at, at + blockBytes),
      'what was read',
    )
  },
}
