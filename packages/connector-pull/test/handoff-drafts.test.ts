import { asRequestId, instantPlus, type KvTransferParams } from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { HandoffDrafts } from '../src/handoff-drafts.ts'
import type { HandoffContent, HandoffWriter } from '../src/handoff-writer.ts'

const requestId = asRequestId('r-1')
const leaseDurationMs = 1_000
const promptDigest = new Uint8Array(32).fill(7)
const blockIds = Uint32Array.of(3, 4)
const draftOrder = { blockIds, tokenCount: 20, promptDigest: () => promptDigest }

function createDrafts() {
  const clock = createSimClock()
  const drafts = new HandoffDrafts(clock, leaseDurationMs)
  const contents: HandoffContent[] = []
  const write = (_: unknown, content: HandoffContent): KvTransferParams => {
    contents.push(content)
    return { written: contents.length }
  }
  const writer = { write } as unknown as HandoffWriter
  const wanted = (changes: Partial<HandoffContent> = {}): HandoffContent => ({
    ...{ blockIds: blockIds.slice(), tokenCount: 20, promptDigest: promptDigest.slice() },
    ...{ leaseDeadline: instantPlus(clock.now(), leaseDurationMs), isReturn: false },
    ...changes,
  })
  return { clock, drafts, writer, contents, wanted }
}

test('it is written after the hook, once, and handed over with the lease of that moment', async () => {
  const { clock, drafts, writer, contents, wanted } = createDrafts()
  const orderedAt = clock.now()
  drafts.order(requestId, draftOrder, writer)
  expect(contents).toEqual([])
  await clock.advance(8)
  expect(contents).toHaveLength(1)
  expect(contents[0]!.leaseDeadline).toBe(orderedAt + leaseDurationMs)
  expect(drafts.take(requestId, wanted())).toEqual({ written: 1 })
  expect(drafts.take(requestId, wanted())).toBeNull()
  expect(clock.pendingCount).toBe(0)
})

test.for<[string, Partial<HandoffContent>]>([
  ['blocks', { blockIds: Uint32Array.of(3, 5) }],
  ['number of blocks', { blockIds: Uint32Array.of(3) }],
  ['number of tokens', { tokenCount: 19 }],
  ['prompt', { promptDigest: new Uint8Array(32) }],
  ['direction', { isReturn: true }],
])('one with another %s is thrown away', async ([, changes]) => {
  const { clock, drafts, writer, wanted } = createDrafts()
  drafts.order(requestId, draftOrder, writer)
  await clock.advance(0)
  expect(drafts.take(requestId, wanted(changes))).toBeNull()
  expect(drafts.take(requestId, wanted())).toBeNull()
})

test('one that is older than a fiftieth of its lease is thrown away', async () => {
  for (const [ageMs, expected] of [
    [20, { written: 1 }],
    [21, null],
  ] as const) {
    const { clock, drafts, writer, wanted } = createDrafts()
    drafts.order(requestId, draftOrder, writer)
    await clock.advance(0)
    await clock.advance(ageMs)
    expect(drafts.take(requestId, wanted())).toEqual(expected)
  }
})

test('blocks that a preemption took: the last order counts', async () => {
  const { clock, drafts, writer, contents, wanted } = createDrafts()
  drafts.order(requestId, draftOrder, writer)
  await clock.advance(0)
  const again = Uint32Array.of(8, 9)
  drafts.order(requestId, { ...draftOrder, blockIds: again }, writer)
  await clock.advance(0)
  expect(contents.map((content) => [...content.blockIds])).toEqual([
    [3, 4],
    [8, 9],
  ])
  expect(drafts.take(requestId, wanted({ blockIds: again }))).toEqual({ written: 2 })
})

test('a request that ended, and an engine that ends, leave nothing to write', async () => {
  const { clock, drafts, writer, contents, wanted } = createDrafts()
  drafts.order(requestId, draftOrder, writer)
  drafts.drop(requestId)
  await clock.advance(1)
  expect(contents).toEqual([])
  drafts.order(requestId, draftOrder, writer)
  drafts.clear()
  expect(clock.pendingCount).toBe(0)
  expect(drafts.take(requestId, wanted())).toBeNull()
})
