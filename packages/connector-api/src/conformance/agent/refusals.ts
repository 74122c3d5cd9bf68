/** A11: what a post must not contain. Each refusal leaves nothing behind. */
import { limits } from '../../limits.ts'
import type { BlockTableHandle, PeerHandle, TransferPost } from '../../transfer-agent.ts'
import type { TransferSide } from '../../transfer-agent.ts'
import type { GroupRuns } from './clause-run.ts'
import type { ClauseContext } from './context.ts'
import { assert, assertRefused } from './expect.ts'
import type { Refusal } from './expect.ts'
import { blocks, checkUnharmed, createPair, denseRegion, postOf, smallPost } from './fixtures.ts'
import type { Pair } from './fixtures.ts'
import type { SideModel } from './stream-model.ts'

const segment = (offset: number, length: number, region = 0): SideModel => ({
  segments: [{ region, offset, length }],
})

/** All posts are refused, nothing was enqueued, and the agent goes on working. */
async function checkRefusals(
  context: ClauseContext,
  pair: Pair,
  refusals: Refusal | readonly Refusal[],
  posts: Readonly<Record<string, TransferPost>>,
): Promise<void> {
  const { transfersPosted } = context.agent.counters()
  for (const [name, post] of Object.entries(posts)) {
    await assertRefused(name, refusals, () => context.agent.post([post]))
  }
  assert.equal(context.agent.counters().transfersPosted, transfersPosted)
  await checkUnharmed(context, pair)
}

/** A read with these sides, each also tried as a write. */
function bothWays(
  pair: Pair,
  cases: Readonly<Record<string, readonly [local: SideModel, remote: SideModel]>>,
): Record<string, TransferPost> {
  const posts: Record<string, TransferPost> = {}
  for (const [name, [local, remote]] of Object.entries(cases)) {
    for (const direction of ['read', 'write'] as const) {
      posts[`${direction}: ${name}`] = postOf(pair, { direction, local, remote })
    }
  }
  return posts
}

export const refusals: GroupRuns<'A11'> = {
  async 'A11.1'(context) {
    const pair = await createPair(context)
    const posts = bothWays(pair, {
      'no blocks': [blocks(), blocks()],
      'no segments': [{ segments: [] }, { segments: [] }],
      'a zero segment': [segment(0, 0), segment(0, 0)],
      'a zero segment among others': [
        {
          segments: [
            { region: 0, offset: 0, length: 256 },
            { region: 0, offset: 512, length: 0 },
          ],
        },
        blocks(0),
      ],
    })
    await checkRefusals(context, pair, 'RangeError', posts)
  },
  async 'A11.2'(context) {
    const pair = await createPair(context)
    const posts = bothWays(pair, {
      'local id past the end': [blocks(16), blocks(0)],
      'remote id past the end': [blocks(0), blocks(16)],
      'one bad id in a list': [blocks(0, 1, 4_294_967_295), blocks(0, 1, 2)],
    })
    await checkRefusals(context, pair, 'RangeError', posts)
  },
  async 'A11.3'(context) {
    const pair = await createPair(context)
    const size = 16 * 256
    const good = segment(0, 256)
    const bad: Record<string, SideModel> = {
      'past the end': segment(size - 255, 256),
      'before the start': segment(-1, 256),
      'a fractional offset': segment(0.5, 256),
      'not a number': segment(NaN, 256),
      'an infinite offset': segment(Infinity, 256),
      'a wrapping range': segment(2 ** 64 - 128, 256),
      'a range beyond exact numbers': segment(2 ** 53, 256),
      'an unknown region': segment(0, 256, 1),
    }
    const lengths: Record<string, number> = {
      'a fractional length': 0.5,
      'a negative length': -256,
      'an infinite length': Infinity,
      'a length that is no number': NaN,
    }
    const cases: Record<string, readonly [SideModel, SideModel]> = {}
    for (const [name, side] of Object.entries(bad)) {
      cases[`local ${name}`] = [side, good]
      cases[`remote ${name}`] = [good, side]
    }
    for (const [name, length] of Object.entries(lengths)) {
      cases[name] = [segment(0, length), segment(0, length)]
    }
    await checkRefusals(context, pair, 'RangeError', bothWays(pair, cases))
  },
  async 'A11.4'(context) {
    const pair = await createPair(context, [denseRegion(256, 16)], [denseRegion(128, 16)])
    const posts = bothWays(pair, {
      'equal counts of unequal blocks': [blocks(0, 1), blocks(0, 1)],
      'one block more': [blocks(0), blocks(0, 1, 2)],
      'a byte less': [blocks(0), segment(0, 255)],
    })
    const { transfersPosted } = context.agent.counters()
    for (const [name, post] of Object.entries(posts)) {
      await assertRefused(name, 'RangeError', () => context.agent.post([post]))
    }
    assert.equal(context.agent.counters().transfersPosted, transfersPosted)
  },
  async 'A11.5'(context) {
    const pair = await createPair(context)
    const overlapping: SideModel = {
      segments: [
        { region: 0, offset: 512, length: 256 },
        { region: 0, offset: 300, length: 256 },
      ],
    }
    const reads: Record<string, SideModel> = { 'one id twice': blocks(3, 3), overlapping }
    const posts: Record<string, TransferPost> = {}
    for (const [name, side] of Object.entries(reads)) {
      const source = blocks(0, 1)
      posts[`read: ${name}`] = postOf(pair, { direction: 'read', local: side, remote: source })
      posts[`write: ${name}`] = postOf(pair, { direction: 'write', local: source, remote: side })
    }
    await checkRefusals(context, pair, 'RangeError', posts)
  },
  async 'A11.6'(context) {
    const pair = await createPair(context)
    const good = smallPost(pair)
    const { table } = pair.local
    const uneven = {
      table,
      regions: Uint32Array.of(0, 0),
      offsets: Float64Array.of(0),
      lengths: Float64Array.of(256),
    }
    const sides: Record<string, unknown> = {
      'no side': undefined,
      'a side without a form': { table },
      'ids as an array': { table, blockIds: [1] },
      'ids of another width': { table, blockIds: Uint16Array.of(1) },
      'offsets as integers': { ...uneven, regions: Uint32Array.of(0), offsets: Uint32Array.of(0) },
      'uneven segments': uneven,
    }
    const forms: Record<string, unknown> = {
      'no object': null,
      'an unknown direction': { ...good, direction: 'copy' },
      'a numeric direction': { ...good, direction: 7 },
      'a notification that is text': { ...good, notification: 'done' },
      'a deadline that is text': { ...good, deadlineMs: '30' },
    }
    for (const [name, local] of Object.entries(sides)) {
      forms[name] = { ...good, local: local as TransferSide }
    }
    await checkRefusals(context, pair, 'TypeError', forms as Record<string, TransferPost>)
    await assertRefused('no list', 'TypeError', () => {
      context.agent.post(good as unknown as TransferPost[])
    })
  },
  async 'A11.7'(context) {
    const pair = await createPair(context)
    const good = smallPost(pair)
    await checkRefusals(context, pair, 'RangeError', {
      'sides exchanged': { ...good, local: good.remote, remote: good.local },
      'local twice': { ...good, remote: { ...good.remote, table: pair.local.table } },
      'remote twice': { ...good, local: { ...good.local, table: pair.remote.table } },
    })
    await assertRefused('export of an imported table', 'RangeError', () =>
      context.agent.exportBlockTable(pair.remote.table),
    )
  },
  async 'A11.8'(context) {
    const pair = await createPair(context)
    const good = smallPost(pair)
    const stale = await context.local([denseRegion(256, 16)])
    context.agent.releaseBlockTable(stale.table)
    const posts: Record<string, TransferPost> = {
      'a stale table': { ...good, local: { ...good.local, table: stale.table } },
    }
    for (const value of [-1, NaN, 0.5, 2 ** 53 - 1, 123_456_789]) {
      const table = value as BlockTableHandle
      posts[`peer ${value}`] = { ...good, peer: value as PeerHandle }
      posts[`local table ${value}`] = { ...good, local: { ...good.local, table } }
      posts[`remote table ${value}`] = { ...good, remote: { ...good.remote, table } }
    }
    await checkRefusals(context, pair, ['RangeError', 'TypeError'], posts)
  },
  async 'A11.9'(context) {
    const blockCount = limits.blocksPerPostMax + 1
    const pair = await createPair(context, [denseRegion(8, blockCount)])
    const all: SideModel = { blockIds: Array.from({ length: blockCount }, (_, index) => index) }
    const post = postOf(pair, { direction: 'read', local: all, remote: all })
    await checkRefusals(context, pair, ['RangeError', 'ERR_KV_LIMIT'], { 'one too many': post })
  },
  async 'A11.10'(context) {
    const pair = await createPair(context)
    const { transfersPosted } = context.agent.counters()
    const after = context.createFence()
    const post = { ...smallPost(pair), after }
    const most = Array.from({ length: limits.transfersInFlightMax }, () => post)
    await assertRefused('all and one more', 'ERR_KV_LIMIT', () =>
      context.agent.post([...most, post]),
    )
    assert.equal(context.agent.counters().transfersPosted, transfersPosted)
    const handles = context.agent.post(most)
    await assertRefused('one more', 'ERR_KV_LIMIT', () => context.agent.post([post]))
    context.agent.signalFence(after)
    for (const handle of handles) await context.done(handle)
    await checkUnharmed(context, pair)
  },
  async 'A11.11'(context) {
    const pair = await createPair(context)
    const posts: Record<string, TransferPost> = {}
    for (const deadlineMs of [0, -1, NaN, Infinity]) {
      posts[`deadline ${deadlineMs}`] = { ...smallPost(pair), deadlineMs }
    }
    await checkRefusals(context, pair, ['RangeError', 'TypeError'], posts)
  },
  async 'A11.12'(context) {
    const pair = await createPair(context)
    const other = await context.remote([denseRegion(256, 16)], await context.createPeer())
    const good = smallPost(pair)
    await checkRefusals(context, pair, 'RangeError', {
      'a table of another peer': { ...good, remote: { ...good.remote, table: other.table } },
    })
  },
}
