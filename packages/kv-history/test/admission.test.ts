import { describe, expect, test } from 'vitest'
import { createWorld } from './fixtures/world.ts'

describe('admission', () => {
  test('RT-03 a prompt beyond the limit of one request keeps its beginning, and says what it left out', async () => {
    const world = createWorld({ device: 10, host: 0, bounds: { candidateSizeBytesMax: 2 * 1_024 } })
    await world.save('a', 'b', 'c', 'd')
    expect(['a', 'b', 'c', 'd'].map(world.isStored)).toEqual([true, true, false, false])
    expect(world.counts()).toMatchObject({ historyCapacityLimitedByRequest: 2 })
    expect(world.counts()).not.toHaveProperty('historySkippedRequests')
  })

  test('a request longer than both tiers is limited by them, from there on', async () => {
    const world = createWorld({ device: 2, host: 1 })
    await world.save('a', 'b', 'c', 'd', 'e')
    expect(['a', 'b', 'c', 'd', 'e'].map(world.isStored)).toEqual([true, true, true, false, false])
    expect(world.counts()).toMatchObject({
      historySavedBlocks: 3,
      historyCapacityLimitedByTiers: 2,
    })
    await world.save('a', 'b', 'c', 'd', 'e')
    expect(world.counts()).toMatchObject({ historyCapacityLimitedByTiers: 4 })
  })

  test('RT-26 an unknown head keeps its tail out, although that has been seen', async () => {
    const world = createWorld({ device: 1, host: 0 })
    await world.save('resident')
    await world.save('m', 't')
    expect(world.counts()).toMatchObject({ historyAdmissionRejectedBlocks: 2 })
    await world.save('new head', 'm', 't')
    expect(world.counts()).toMatchObject({ historyAdmissionRejectedBlocks: 5 })
    expect(world.counts()).not.toHaveProperty('historyAdmissionReusedBlocks')
    expect(world.isStored('resident')).toBe(true)
    expect(['m', 't'].some(world.isStored)).toBe(false)
  })

  test('RT-26 probation that is smaller than a request keeps its head', async () => {
    const world = createWorld({ device: 2, host: 0, bounds: { probationKeyCountMax: 2 } })
    await world.save('x', 'y')
    await world.save('h', 'm', 't')
    // Second time: the head and what follows are known, the tail is not.
    await world.save('h', 'm', 't')
    expect(['h', 'm', 't'].map(world.isStored)).toEqual([true, true, false])
    expect(world.counts()).toMatchObject({ historyAdmissionReusedBlocks: 2 })
  })

  test('RT-27 a stored tail is not counted as missing', async () => {
    const world = createWorld({ device: 1, host: 0 })
    await world.save('tail')
    await world.save('head', 'tail')
    expect(world.counts()).toMatchObject({ historyAdmissionRejectedBlocks: 1 })
    expect([world.isStored('head'), world.isStored('tail')]).toEqual([false, true])
  })

  test('RT-40 what came once displaces nothing, what comes twice does', async () => {
    const world = createWorld({ device: 2, host: 0 })
    await world.save('hot 1', 'hot 2')
    await world.save('new 1', 'new 2')
    expect(['hot 1', 'hot 2', 'new 1', 'new 2'].map(world.isStored)).toEqual([
      ...[true, true],
      ...[false, false],
    ])
    await world.save('new 1', 'new 2')
    expect(['hot 1', 'hot 2', 'new 1', 'new 2'].map(world.isStored)).toEqual([
      ...[false, false],
      ...[true, true],
    ])
    expect(world.counts()).toMatchObject({
      historyAdmissionRejectedBlocks: 2,
      historySavedBlocks: 4,
      historyAdmissionReusedBlocks: 2,
    })
  })

  test('RT-41 probation forgets the oldest', async () => {
    const world = createWorld({ device: 1, host: 0, bounds: { probationKeyCountMax: 2 } })
    await world.save('resident')
    await world.save('a')
    await world.save('b')
    await world.save('c')
    await world.save('a')
    expect(world.isStored('a')).toBe(false)
    await world.save('c')
    expect(world.isStored('c')).toBe(true)
  })

  test('what has been stored takes no room in probation any more', async () => {
    const world = createWorld({ device: 1, host: 0, bounds: { probationKeyCountMax: 2 } })
    await world.save('resident')
    for (const name of ['a', 'b', 'b', 'c']) await world.save(name)
    expect(world.isStored('b')).toBe(true)
    await world.save('a')
    expect(world.isStored('a')).toBe(true)
  })

  test('a request is observed even while the writer is busy with another', async () => {
    const world = createWorld({ device: 1, host: 0 })
    await world.save('resident')
    await world.save('a')
    world.copies.decide = () => ({ fate: 'done', delayMs: 5 })
    const first = world.offer(['a'])
    expect(first).not.toBeNull()
    expect(world.offer(['b'])).toBeNull()
    await world.clock.wait(first!, 1_000)
    await world.save('b')
    expect(world.isStored('b')).toBe(true)
  })

  test.each(['copy-on-eviction', 'write-through'] as const)(
    '%s keeps what came once',
    async (policy) => {
      const world = createWorld({ device: 1, host: 1, policy })
      for (const name of ['a', 'b', 'c']) await world.save(name)
      expect(world.isStored('c')).toBe(true)
      expect(world.isStored('a')).toBe(false)
    },
  )
})
