/** A8: transfers that take longer than they may. */
import type { GroupRuns } from './clause-run.ts'
import { bytesOf } from './context.ts'
import type { ClauseContext } from './context.ts'
import { assert, assertRefused, assertSameBytes } from './expect.ts'
import { createPair, fillPair, smallPost } from './fixtures.ts'
import type { Pair } from './fixtures.ts'
import type { TransferHandle } from '../../transfer-agent.ts'

/** Deadlines here are short; a busy machine may miss one before it has begun. Then it is tried again. */
const attemptCountMax = 20

/** A read that makes no progress and is overdue by now. */
async function postOverdue(context: ClauseContext, pair: Pair): Promise<TransferHandle> {
  await context.wait(context.world.stallPeer(context.peer))
  const { recorder } = context
  for (let attempt = 0; attempt < attemptCountMax; attempt++) {
    const transfer = context.postOne({ ...smallPost(pair), deadlineMs: 40 })
    const isOverdue = (): boolean => recorder.overdues(transfer).length > 0
    // Final at its deadline: it was never posted.
    const isUnposted = (): boolean => recorder.finals(transfer).length > 0
    await context.wait(recorder.until(() => isOverdue() || isUnposted()))
    if (isOverdue()) return transfer
  }
  return assert.fail(`no transfer was overdue in ${attemptCountMax} attempts`)
}

/** A read that is done before its deadline. */
async function postInTime(context: ClauseContext, pair: Pair, deadlineMs: number) {
  for (let attempt = 0; attempt < attemptCountMax; attempt++) {
    const transfer = context.postOne({ ...smallPost(pair), deadlineMs })
    const final = await context.final(transfer)
    const isLate = context.recorder.overdues(transfer).length > 0
    if (final.status === 'done' && !isLate) return transfer
  }
  return assert.fail(`no transfer was done in time in ${attemptCountMax} attempts`)
}

export const deadlines: GroupRuns<'A8'> = {
  async 'A8.1'(context) {
    const pair = await createPair(context)
    const source = (await fillPair(context, pair, 50))[0]!
    const transfer = await postOverdue(context, pair)
    await context.quiet()
    const { recorder } = context
    assert.deepEqual(recorder.finals(transfer), [])
    assert.equal(recorder.overdues(transfer)[0]!.error.code, 'ERR_KV_DEADLINE')
    await context.wait(context.world.resumePeer(context.peer))
    await context.done(transfer)
    await context.quiet()
    assert.equal(recorder.overdues(transfer).length, 1)
    assert.equal(recorder.finals(transfer).length, 1)
    const lead = pair.local.regions[0]!.leadBytes
    const actual = bytesOf(pair.local.memories[0]!).subarray(lead + 256, lead + 512)
    assertSameBytes(actual, source.subarray(lead + 512, lead + 768), 'local block')
  },
  async 'A8.2'(context) {
    const pair = await createPair(context)
    const transfer = await postOverdue(context, pair)
    const { agent } = context
    assert.equal(agent.counters().transfersDraining, 1)
    assert.equal(agent.counters().transfersOpen, 1)
    await assertRefused('release', 'ERR_KV_BUSY', () => agent.releaseBlockTable(pair.local.table))
    await assertRefused('deregister', 'ERR_KV_BUSY', () =>
      context.wait(agent.deregisterRegion(pair.local.regionHandles[0]!)),
    )
    await assertRefused('free', 'ERR_KV_BUSY', () => pair.local.memories[0]!.free())
    await assertRefused('drain', 'ERR_KV_DEADLINE', () =>
      context.wait(agent.drain({ deadlineMs: 20 })),
    )
    await context.wait(context.world.resumePeer(context.peer))
    await context.done(transfer)
    assert.equal(agent.counters().transfersDraining, 0)
    agent.releaseBlockTable(pair.local.table)
  },
  async 'A8.3'(context) {
    const pair = await createPair(context)
    const deadlineMs = 400
    const transfer = await postInTime(context, pair, deadlineMs)
    await context.time.pass(deadlineMs + 50)
    assert.deepEqual(context.recorder.overdues(transfer), [])
    assert.equal(context.recorder.finals(transfer).length, 1)
  },
  async 'A8.4'(context) {
    const pair = await createPair(context)
    const transfer = await postOverdue(context, pair)
    await context.wait(context.agent.removePeer(pair.remote.peer))
    await context.quiet()
    assert.deepEqual(context.recorder.finals(transfer), [])
    assert.equal(context.agent.counters().transfersOpen, 1)
    await context.wait(context.world.resumePeer(context.peer))
    await context.final(transfer)
    await context.quiet()
    assert.equal(context.recorder.finals(transfer).length, 1)
  },
}
