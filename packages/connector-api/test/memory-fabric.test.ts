// The treachery of the fabric: what a transfer does after everyone has let go. A connector that is right
// here has a chance with the real library; the agent suite judges the rest.
import { expect, test } from 'vitest'
import { countOf, createWorld, sizeBytes } from './fabric-world.ts'

test('a write goes on after the target deregistered, freed and gave its memory away', async () => {
  const { clock, fabric, remote, post, local } = await createWorld()
  post('write')
  await clock.advance(3)
  const before = countOf(remote.memory.bytes!, 1)
  expect(before).toBeGreaterThan(0)
  expect(before).toBeLessThan(sizeBytes)
  remote.agent.releaseBlockTable(remote.table)
  await clock.wait(remote.agent.deregisterRegion(remote.region), 1)
  const view = remote.memory.bytes!
  remote.memory.free()
  expect(view.length).toBe(0)
  const next = fabric.allocator.allocate({ sizeBytes })
  expect(countOf(next.bytes!, 0)).toBe(sizeBytes)
  await clock.advance(50)
  expect(local.completions.map(({ status }) => status)).toEqual(['done'])
  expect(countOf(next.bytes!, 1)).toBe(sizeBytes - before)
})

test('freed memory is poison to whoever still reads it', async () => {
  const { clock, remote, post, local } = await createWorld()
  remote.agent.releaseBlockTable(remote.table)
  await clock.wait(remote.agent.deregisterRegion(remote.region), 1)
  remote.memory.free()
  post('read')
  await clock.advance(50)
  expect(countOf(local.memory.bytes!, 0xde)).toBe(sizeBytes)
})

test('a write goes on for a while after its target was killed, then fails', async () => {
  const counts = new Set<number>()
  for (const seed of [1, 2, 3, 4]) {
    const { clock, fabric, remote, post, local } = await createWorld(seed)
    post('write')
    await clock.advance(2)
    const atDeath = countOf(remote.memory.bytes!, 1)
    fabric.faults.kill('remote')
    await clock.advance(50)
    expect(local.completions).toMatchObject([
      { status: 'failed', error: { code: 'ERR_KV_TRANSFER_FAILED' } },
    ])
    const atEnd = countOf(remote.memory.bytes!, 1)
    expect(atEnd).toBeLessThan(sizeBytes)
    counts.add(atEnd - atDeath)
    // Final is final: not a byte more.
    await clock.advance(50)
    expect(countOf(remote.memory.bytes!, 1)).toBe(atEnd)
  }
  expect(Math.max(...counts)).toBeGreaterThan(0)
})

test('only the death of the initiator stops its writes, and nobody hears of them', async () => {
  const { clock, fabric, remote, post, local } = await createWorld()
  post('write', 'never')
  await clock.advance(3)
  fabric.faults.kill('local')
  const atDeath = countOf(remote.memory.bytes!, 1)
  await clock.runUntilIdle()
  expect(countOf(remote.memory.bytes!, 1)).toBe(atDeath)
  expect(local.completions).toEqual([])
  expect(remote.messages).toEqual([])
  expect(() => post('write')).toThrow(expect.objectContaining({ code: 'ERR_KV_CLOSED' }))
})

test('closing at its deadline leaves a stuck transfer writing and its memory pinned', async () => {
  const { clock, fabric, remote, post, local } = await createWorld()
  fabric.faults.stall('remote')
  post('read')
  await clock.wait(local.agent.close({ deadlineMs: 5 }), 10)
  expect(() => local.memory.free()).toThrow(expect.objectContaining({ code: 'ERR_KV_BUSY' }))
  fabric.faults.unstall('remote')
  await clock.runUntilIdle()
  expect(countOf(local.memory.bytes!, 2)).toBe(sizeBytes)
  expect(local.completions).toEqual([])
  expect(remote.broken).toEqual([])
})

test('bytes land in no order: some end is written before some beginning', async () => {
  const { clock, post, local } = await createWorld()
  post('read')
  await clock.advance(4)
  const bytes = local.memory.bytes!
  expect(bytes.lastIndexOf(2)).toBeGreaterThan(bytes.indexOf(1))
})
