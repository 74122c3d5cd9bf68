/** A9: peers whose process ends without a word. */
import type { GroupRuns } from './clause-run.ts'
import { assert } from './expect.ts'
import { blocks, checkExchange, createPair, denseRegion, postOf, smallPost } from './fixtures.ts'

export const deadPeers: GroupRuns<'A9'> = {
  async 'A9.1'(context) {
    const pair = await createPair(context)
    await context.done(context.postOne(smallPost(pair)))
    await context.wait(context.world.killPeer(context.peer))
    for (const direction of ['read', 'write'] as const) {
      const final = await context.final(context.postOne(smallPost(pair, direction)))
      const code = final.status === 'failed' ? final.error.code : final.status
      assert.equal(code, 'ERR_KV_TRANSFER_FAILED', direction)
    }
    assert.deepEqual(context.recorder.broken, [])
  },
  async 'A9.2'(context) {
    const blockBytes = 2 * 2 ** 20
    const pair = await createPair(context, [denseRegion(blockBytes, 8)])
    await context.done(context.postOne(smallPost(pair)))
    const handles = context.agent.post(
      ([0, 1, 2, 3] as const).map((index) => {
        const direction = index % 2 === 0 ? 'read' : 'write'
        const side = blocks(2 * index, 2 * index + 1)
        return postOf(pair, { direction, local: side, remote: side })
      }),
    )
    await context.wait(context.world.killPeer(context.peer))
    for (const handle of handles) await context.final(handle)
    await context.quiet()
    for (const handle of handles) assert.equal(context.recorder.finals(handle).length, 1)
    assert.equal(context.agent.counters().transfersOpen, 0)
    assert.deepEqual(context.recorder.broken, [])
  },
  async 'A9.3'(context) {
    const other = await context.createPeer()
    const pair = await createPair(context)
    const remote = await context.remote([denseRegion(256, 16)], other)
    const exchange = { direction: 'read', local: blocks(1, 2), remote: blocks(4, 3) } as const
    await checkExchange(context, { local: pair.local, remote }, exchange)
    await context.done(context.postOne(smallPost(pair)))
    await context.wait(context.world.killPeer(context.peer))
    const failed = await context.final(context.postOne(smallPost(pair)))
    assert.equal(failed.status, 'failed')
    await checkExchange(context, { local: pair.local, remote }, exchange, 2)
  },
  async 'A9.4'(context) {
    const pair = await createPair(context)
    await context.done(context.postOne(smallPost(pair)))
    await context.wait(context.world.killPeer(context.peer))
    await context.final(context.postOne(smallPost(pair)))
    await context.wait(context.agent.removePeer(pair.remote.peer))
    const remote = await context.remote([denseRegion(256, 16)], await context.createPeer())
    const exchange = { direction: 'write', local: blocks(1, 2), remote: blocks(4, 3) } as const
    await checkExchange(context, { local: pair.local, remote }, exchange)
  },
}
