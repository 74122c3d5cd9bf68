import { describe, expect, test } from 'vitest'
import { createWorld, keysOf } from './fixtures/world.ts'

const one = { chunkBlockCountMax: 1 }

describe('tiers', () => {
  test('RT-25 heads are newest: the tail goes first, and what is left still matches', async () => {
    const world = createWorld({ device: 3, host: 0, policy: 'copy-on-eviction' })
    await world.save('h', 'm', 't')
    await world.save('x')
    expect(['h', 'm', 't'].map(world.isStored)).toEqual([true, true, false])
    expect(world.history.lookup(keysOf(['h', 'm', 't']), 0)).toBe(2)
  })

  test('RT-25 the same after a reservation', async () => {
    const world = createWorld({ device: 4, host: 0, policy: 'copy-on-eviction' })
    await world.save('h', 'm', 't')
    await world.save('y')
    const reservation = world.history.reserve(keysOf(['h', 'm', 't']), 0)
    world.history.release(reservation!.lease)
    await world.save('x1')
    await world.save('x2')
    expect(['y', 't', 'm', 'h'].map(world.isStored)).toEqual([false, false, true, true])
  })

  test('RT-38 what leaves the device is read from host memory, and the head stays on the device', async () => {
    const world = createWorld({ device: 2, host: 2, bounds: one })
    await world.save('a', 'b', 'c', 'd')
    expect(world.counts()).toMatchObject({ historyDemotions: 2, historySavedBlocks: 4 })
    expect(world.history.gauges()).toMatchObject({ deviceBlocks: 2, hostBlocks: 2 })
    expect(await world.load('a')).toBe(1)
    expect(world.counts()).toMatchObject({ historyDeviceHitBlocks: 1 })
    expect(await world.load('a', 'b', 'c', 'd')).toBe(4)
    expect(world.counts()).toMatchObject({ historyDeviceHitBlocks: 3, historyHostHitBlocks: 2 })
  })

  test('RT-39 nothing is forgotten before both tiers are full', async () => {
    const world = createWorld({ device: 1, host: 2, policy: 'copy-on-eviction', bounds: one })
    for (const name of ['a', 'b', 'c']) await world.save(name)
    expect(['a', 'b', 'c'].map(world.isStored)).toEqual([true, true, true])
    expect(world.counts()).not.toHaveProperty('historyEvictedBlocks')
    await world.save('d')
    expect(['a', 'b', 'c', 'd'].map(world.isStored)).toEqual([false, true, true, true])
    expect(world.counts()).toMatchObject({ historyEvictedBlocks: 1, historyDemotions: 3 })
  })

  test('RT-39 leased blocks keep their tier', async () => {
    const world = createWorld({ device: 2, host: 1, policy: 'copy-on-eviction', bounds: one })
    await world.save('a')
    await world.save('b')
    const lease = world.history.reserve(keysOf(['a']), 0)!.lease
    await world.save('c')
    expect(world.history.gauges()).toMatchObject({ deviceBlocks: 2, hostBlocks: 1 })
    const result = world.history.restore(lease, Uint32Array.of(5_000))
    expect(await world.clock.wait(result, 1_000)).toMatchObject({ deviceBlockCount: 1 })
    expect(world.copies.content.engine[5_000]).toEqual(['a/0', 'a/1'])
  })

  test('RT-39 a new block is refused when everything is leased', async () => {
    const world = createWorld({ device: 1, host: 1, policy: 'copy-on-eviction' })
    await world.save('a', 'b')
    const leases = ['a', 'b'].map((name) => world.history.reserve(keysOf([name]), 0)!.lease)
    await world.save('c')
    expect(['a', 'b', 'c'].map(world.isStored)).toEqual([true, true, false])
    expect(world.counts()).toMatchObject({ historyCapacityLimitedByReaders: 1 })
    leases.forEach((lease) => world.history.release(lease))
    await world.save('c')
    expect(world.isStored('c')).toBe(true)
  })

  test('RT-39 leases in host memory do not block the device: its victim goes', async () => {
    const world = createWorld({ device: 1, host: 1, policy: 'copy-on-eviction', bounds: one })
    await world.save('a')
    await world.save('b')
    world.history.reserve(keysOf(['a']), 0)
    await world.save('c')
    expect(['a', 'b', 'c'].map(world.isStored)).toEqual([true, false, true])
  })

  test('RT-39 without host capacity nothing is demoted', async () => {
    const world = createWorld({ device: 1, host: 0, policy: 'copy-on-eviction' })
    await world.save('a')
    await world.save('b')
    expect(world.counts()).not.toHaveProperty('historyDemotions')
    expect(world.copies.log.every(({ to }) => to === 'device')).toBe(true)
  })

  test('a device tier of nothing leaves the host tier', async () => {
    const world = createWorld({ device: 0, host: 2 })
    await world.save('a', 'b')
    expect(await world.load('a', 'b')).toBe(2)
    expect(world.counts()).toMatchObject({ historyHostHitBlocks: 2, historyHostWrittenBlocks: 2 })
  })

  test('demotion keeps the place in the order of use', async () => {
    const world = createWorld({ device: 2, host: 2, policy: 'copy-on-eviction', bounds: one })
    for (const name of ['a', 'b', 'c']) await world.save(name)
    // a is in host memory; b, older than a now, is demoted next and must go before it.
    await world.load('a')
    await world.save('d')
    await world.save('e')
    expect(['a', 'b', 'c', 'd', 'e'].map(world.isStored)).toEqual([
      ...[true, false, true],
      ...[true, true],
    ])
  })

  test('write-through writes host memory at once, and nothing when the device makes room', async () => {
    const world = createWorld({ device: 1, host: 3, policy: 'write-through' })
    for (const name of ['a', 'b', 'c']) await world.save(name)
    expect(world.counts()).toMatchObject({
      historyDeviceWrittenBlocks: 3,
      historyHostWrittenBlocks: 3,
    })
    expect(world.counts()).not.toHaveProperty('historyDemotions')
    for (const name of ['a', 'b', 'c']) expect(await world.load(name)).toBe(1)
    expect(world.counts()).toMatchObject({ historyDeviceHitBlocks: 1, historyHostHitBlocks: 2 })
  })
})
