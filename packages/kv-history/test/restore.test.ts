import { noDestination, type HistoryLease } from '@kvferry/connector-api'
import { describe, expect, test } from 'vitest'
import { historyLimits } from '../src/index.ts'
import { createWorld, keysOf } from './fixtures/world.ts'

describe('restoring', () => {
  test('RT-29 hits are counted after success, over what was written, once', async () => {
    const world = createWorld({ device: 4, host: 0 })
    await world.save('a', 'b', 'c')
    const keys = keysOf(['a', 'b', 'c'])
    const first = world.history.reserve(keys, 0)!
    world.history.release(first.lease)
    const second = world.history.reserve(keys, 0)!
    expect(world.counts()).not.toHaveProperty('historyHitBlocks')
    const destinations = Uint32Array.of(noDestination, 900, noDestination)
    const result = world.history.restore(second.lease, destinations)
    expect(world.counts()).not.toHaveProperty('historyHitBlocks')
    expect(await world.clock.wait(result, 1_000)).toEqual({
      ...{ kind: 'restored', blockCount: 1, deviceBlockCount: 1 },
    })
    expect(world.copies.content.engine[900]).toEqual(['b/0', 'b/1'])
    expect(world.counts()).toMatchObject({
      historyHitBlocks: 1,
      historyDeviceHitBlocks: 1,
      historyLoadedRequests: 1,
    })
    expect(world.counts()).not.toHaveProperty('historyHostHitBlocks')
  })

  test('RT-32 a second reservation is another lease', async () => {
    const world = createWorld({ device: 4, host: 0 })
    await world.save('a')
    const first = world.history.reserve(keysOf(['a']), 0)!.lease
    world.history.release(first)
    const second = world.history.reserve(keysOf(['a']), 0)!.lease
    expect(second).not.toBe(first)
    expect([first, second].every((lease) => lease.startsWith('history:'))).toBe(true)
    expect(world.history.gauges().leasesOpen).toBe(1)
  })

  test('reserves from the block that is asked for, up to the first gap', async () => {
    const world = createWorld({ device: 4, host: 0 })
    await world.save('a', 'b', 'c')
    expect(world.history.reserve(keysOf(['a', 'b', 'x', 'c']), 1)).toMatchObject({ blockCount: 1 })
    expect(world.history.reserve(keysOf(['x', 'a']), 0)).toBeNull()
    expect(world.history.reserve(keysOf(['a']), 1)).toBeNull()
  })

  test('RT-44 a lease that is gone restores nothing and fails nothing', async () => {
    const world = createWorld({ device: 4, host: 0 })
    await world.save('a')
    const { lease } = world.history.reserve(keysOf(['a']), 0)!
    world.history.release(lease)
    for (const gone of [lease, 'history:99' as HistoryLease, 'ticket' as HistoryLease]) {
      expect(await world.history.restore(gone, Uint32Array.of(1))).toEqual({ kind: 'lease-gone' })
    }
    expect(world.copies.log.length).toBe(1)
  })

  test('RT-44 more destinations than were reserved are a mistake; the lease is released', async () => {
    const world = createWorld({ device: 4, host: 0 })
    await world.save('a', 'b')
    const { lease } = world.history.reserve(keysOf(['a']), 0)!
    await expect(world.history.restore(lease, Uint32Array.of(1, 2))).rejects.toThrow(RangeError)
    expect(world.history.gauges().leasesOpen).toBe(0)
  })

  test('a lease ends by time, unless it is being read', async () => {
    const world = createWorld({ device: 4, host: 0 })
    await world.save('a')
    const { lease: idle } = world.history.reserve(keysOf(['a']), 0)!
    const { lease: read } = world.history.reserve(keysOf(['a']), 0)!
    world.copies.decide = () => ({ fate: 'done', delayMs: 2 * historyLimits.leaseDurationMs })
    const restoring = world.history.restore(read, Uint32Array.of(7))
    await world.clock.advance(historyLimits.leaseDurationMs)
    expect(await world.history.restore(idle, Uint32Array.of(1))).toEqual({ kind: 'lease-gone' })
    expect(world.counts()).toMatchObject({ historyLeasesExpired: 1 })
    world.history.release(read)
    expect(world.history.gauges().leasesOpen).toBe(1)
    expect(await world.clock.wait(restoring, 1e6)).toMatchObject({ kind: 'restored' })
    expect(world.history.gauges().leasesOpen).toBe(0)
  })

  test('a lease that has ended pins nothing when room is made', async () => {
    const world = createWorld({ device: 1, host: 0, policy: 'copy-on-eviction' })
    await world.save('a')
    world.history.reserve(keysOf(['a']), 0)
    await world.save('b')
    expect(world.isStored('b')).toBe(false)
    await world.clock.advance(historyLimits.leaseDurationMs)
    await world.save('b')
    expect(world.isStored('b')).toBe(true)
  })

  test('no more leases are open than the bound', async () => {
    const world = createWorld({ device: 1, host: 0, bounds: { leaseCountMax: 2 } })
    await world.save('a')
    const leases = [1, 2, 3].map(() => world.history.reserve(keysOf(['a']), 0))
    expect(leases.map((lease) => lease !== null)).toEqual([true, true, false])
  })

  test('RT-08 one restore that fails releases its lease and harms no other', async () => {
    const world = createWorld({ device: 2, host: 0 })
    await world.save('a', 'b')
    const [a, b] = ['a', 'b'].map((name) => world.history.reserve(keysOf([name]), 0)!.lease)
    world.copies.decide = ({ toBlocks }) => ({
      fate: toBlocks[0] === 1 ? 'failed' : 'done',
      delayMs: 1,
    })
    const restores = Promise.all([
      world.history.restore(a!, Uint32Array.of(1)),
      world.history.restore(b!, Uint32Array.of(2)),
    ])
    expect(await world.clock.wait(restores, 1_000)).toMatchObject([
      { kind: 'failed', error: { code: 'ERR_KV_TRANSFER_FAILED' } },
      { kind: 'restored' },
    ])
    expect(world.counts()).toMatchObject({ historyFailedLoads: 1, historyHitBlocks: 1 })
    expect(world.history.gauges().leasesOpen).toBe(0)
  })

  test('RT-45 what is being restored is held until its copies have ended, whatever is released', async () => {
    const world = createWorld({ device: 1, host: 0, policy: 'copy-on-eviction' })
    await world.save('a')
    const { lease } = world.history.reserve(keysOf(['a']), 0)!
    world.copies.decide = ({ from }) => ({ fate: from === 'device' ? 'never' : 'done', delayMs: 0 })
    let isSettled = false
    const restoring = world.history
      .restore(lease, Uint32Array.of(7))
      .finally(() => (isSettled = true))
    world.history.release(lease)
    world.history.release(lease)
    await world.clock.advance(2 * historyLimits.leaseDurationMs)
    await world.save('b')
    expect([world.isStored('a'), world.isStored('b'), isSettled]).toEqual([true, false, false])
    expect(world.history.gauges()).toMatchObject({ leasesOpen: 1, slotsQuarantined: 1 })
    world.copies.endHanging('done')
    expect(await world.clock.wait(restoring, 1_000)).toMatchObject({ kind: 'restored' })
    expect(world.copies.conflicts).toEqual([])
    await world.save('b')
    expect(world.isStored('b')).toBe(true)
  })

  test('a restore that runs is waited for by close', async () => {
    const world = createWorld({ device: 1, host: 0 })
    await world.save('a')
    const { lease } = world.history.reserve(keysOf(['a']), 0)!
    world.copies.decide = () => ({ fate: 'done', delayMs: 50 })
    const restoring = world.history.restore(lease, Uint32Array.of(7))
    await world.clock.wait(world.history.close(), 1_000)
    expect(await restoring).toMatchObject({ kind: 'restored' })
    expect(world.copies.conflicts).toEqual([])
    expect(world.copies.isClosed).toBe(true)
  })

  test('RT-49 with a budget of 0 nothing is stored, found or copied', async () => {
    const world = createWorld({ device: 0, host: 0 })
    expect(world.history.isEnabled).toBe(false)
    expect(world.offer(['a', 'b'])).toBeNull()
    expect(world.history.lookup(keysOf(['a']), 0)).toBe(0)
    expect(world.history.reserve(keysOf(['a']), 0)).toBeNull()
    expect(world.counts()).toEqual({})
  })

  test('mistakes of the caller are named', () => {
    const { history } = createWorld({ device: 1, host: 0 })
    const keys = keysOf(['a'])
    expect(() => history.offer({ keys, blockIds: Uint32Array.of(1, 2) })).toThrow(/2 blocks for 1/)
    expect(() => history.lookup(keys.subarray(1), 0)).toThrow(/no whole number of 32-byte keys/)
    expect(() => history.lookup(keys, -1)).toThrow(/firstBlock: -1/)
  })
})
