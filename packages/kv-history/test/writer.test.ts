import { silentLogger, type TransferDirections } from '@kvferry/connector-api'
import { describe, expect, test, vi } from 'vitest'
import { historyLimits } from '../src/index.ts'
import { createWorld, keysOf } from './fixtures/world.ts'

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`)

/** A direction that a test keeps busy. */
function busyDirections(): TransferDirections & { busyUntil: number; looks: number } {
  return {
    busyUntil: 0,
    looks: 0,
    isBusy() {
      this.looks += 1
      return this.looks <= this.busyUntil
    },
    during: (_, work) => work(),
  }
}

describe('the writer', () => {
  test('RT-46 chunks are as large as there are free slots, and smaller where they displace', async () => {
    const bounds = { fillChunkSizeBytesMax: 4 * 1_024, replaceChunkSizeBytesMax: 2 * 1_024 }
    const world = createWorld({ device: 5, host: 0, policy: 'copy-on-eviction', bounds })
    await world.save(...names('a', 5))
    await world.save(...names('b', 5))
    expect(world.copies.log.map(({ toBlocks }) => toBlocks.length)).toEqual([4, 1, 2, 2, 1])
    expect(world.counts()).toMatchObject({ historySaveChunks: 5 })
  })

  test.each([
    [192 * 1_024, 32, 10],
    [3 * 1_048_576, 2, 1],
  ])(
    '%d-byte blocks: chunks of %d, of %d where they displace',
    async (blockBytes, fill, replace) => {
      const policy = 'copy-on-eviction'
      const world = createWorld({ device: 40, host: 0, blockBytes, policy })
      world.copies.decide = () => ({ fate: 'done', delayMs: 0 })
      for (const prefix of ['a', 'b', 'c', 'd']) await world.save(...names(prefix, 20))
      const sizes = world.copies.log.map(({ toBlocks }) => toBlocks.length)
      expect(Math.max(...sizes.slice(0, 2))).toBe(Math.min(fill, 20))
      expect(sizes.slice(-1)[0]).toBeLessThanOrEqual(replace)
      expect(Math.max(...sizes.slice(-2))).toBe(replace)
    },
  )

  test('RT-42 publishes only after the fence, owns the blocks until then, and outlives their reuse', async () => {
    const world = createWorld({ device: 2, host: 0 })
    world.copies.decide = () => ({ fate: 'done', delayMs: 50 })
    let isFree = false
    const ended = world.offer(['a'])!.then(() => (isFree = true))
    await world.clock.advance(49)
    expect([world.isStored('a'), isFree]).toEqual([false, false])
    await world.clock.advance(1)
    await ended
    expect([world.isStored('a'), isFree]).toEqual([true, true])
    world.copies.compute(100, 'something else')
    world.copies.decide = () => ({ fate: 'done', delayMs: 0 })
    expect(await world.load('a')).toBe(1)
  })

  test('RT-43 RT-18 a copy that fails publishes nothing, counts once, frees the blocks, logs the stack', async () => {
    const warn = vi.fn()
    const world = createWorld({ device: 1, host: 1, logger: { ...silentLogger, warn } })
    world.copies.decide = () => ({ fate: 'failed', delayMs: 1 })
    await world.save('a', 'b')
    expect(world.counts()).toEqual({ historyFailures: 1 })
    expect(['a', 'b'].some(world.isStored)).toBe(false)
    expect(warn.mock.calls[0]![1].error).toContain('fake-copies.ts')
    // All slots are free again.
    world.copies.decide = () => ({ fate: 'done', delayMs: 0 })
    await world.save('c', 'd')
    expect(world.history.gauges()).toMatchObject({ deviceBlocks: 1, hostBlocks: 1 })
  })

  test('RT-43 a demotion that fails leaves its block on the device', async () => {
    const world = createWorld({ device: 1, host: 1, policy: 'copy-on-eviction' })
    await world.save('a')
    world.copies.decide = ({ to }) => ({ fate: to === 'host' ? 'failed' : 'done', delayMs: 0 })
    await world.save('b')
    expect(world.counts()).toMatchObject({ historyFailures: 1 })
    expect(await world.load('a')).toBe(1)
    expect(world.isStored('b')).toBe(false)
  })

  test('RT-11 a deadline of 0 drops every candidate, and the blocks are free at once', async () => {
    const world = createWorld({ device: 4, host: 0, bounds: { writerDeadlineMs: 0 } })
    await world.save('a', 'b')
    expect(world.counts()).toEqual({ historyDeadlineDroppedBlocks: 2 })
  })

  test('RT-11 RT-53 closing drops every candidate of a waiting writer, and frees everything', async () => {
    const directions = busyDirections()
    directions.busyUntil = Infinity
    const world = createWorld({ device: 4, host: 0, directions })
    const ended = world.offer(['a', 'b'])!
    const closed = world.history.close()
    await world.clock.wait(Promise.all([ended, closed]), 1_000)
    expect(world.counts()).toEqual({ historyClosingDroppedBlocks: 2 })
    expect(world.history.gauges().leasesOpen).toBe(0)
    expect(world.copies.isClosed).toBe(true)
    expect(world.offer(['c'])).toBeNull()
    expect(world.history.reserve(keysOf(['a']), 0)).toBeNull()
    await world.history.close()
  })

  test('RT-12 a request that finds the writer busy frees its blocks and is counted, once', async () => {
    const world = createWorld({ device: 4, host: 0 })
    world.copies.decide = () => ({ fate: 'done', delayMs: 5 })
    const first = world.offer(['a'])!
    expect(world.offer(['b', 'c'])).toBeNull()
    expect(world.copies.running.size).toBe(1)
    await world.clock.wait(first, 1_000)
    expect(world.counts()).toEqual({
      historySavedBlocks: 1,
      historySaveChunks: 1,
      historySkippedRequests: 1,
      historyDeviceWrittenBlocks: 1,
    })
  })

  test('waits for a busy direction, looking every millisecond', async () => {
    const directions = busyDirections()
    directions.busyUntil = 3
    const world = createWorld({ device: 4, host: 0, directions })
    const start = world.clock.now()
    await world.save('a')
    expect(world.isStored('a')).toBe(true)
    expect(world.clock.now() - start).toBe(3 * historyLimits.writerRecheckMs)
  })

  test('RT-34 looks at the deadline before every chunk, though no direction is ever busy', async () => {
    const bounds = { chunkBlockCountMax: 1 }
    const world = createWorld({ device: 8, host: 0, bounds })
    world.copies.decide = () => ({ fate: 'done', delayMs: 6 })
    await world.save('a', 'b', 'c', 'd')
    expect(['a', 'b', 'c', 'd'].map(world.isStored)).toEqual([true, true, false, false])
    expect(world.counts()).toMatchObject({ historyDeadlineDroppedBlocks: 2, historySavedBlocks: 2 })
  })

  test('RT-34 the deadline is soft: a chunk that runs is waited for', async () => {
    const world = createWorld({ device: 8, host: 0 })
    world.copies.decide = () => ({ fate: 'done', delayMs: 500 })
    await world.save('a', 'b')
    expect(world.counts()).toMatchObject({ historySavedBlocks: 2 })
  })

  test('RT-28 a reader that pins the room mid-write ends the writing there', async () => {
    const world = createWorld({
      ...{ device: 2, host: 2, policy: 'copy-on-eviction' },
      bounds: { replaceChunkSizeBytesMax: 2 * 1_024 },
    })
    await world.save('a', 'b')
    // The chunk of two needs the room of a and b: they are on their way to host memory.
    world.copies.decide = () => ({ fate: 'done', delayMs: 2 })
    const ended = world.offer(['c', 'd', 'e'])!
    const lease = world.history.reserve(keysOf(['a']), 0)!.lease
    await world.clock.wait(ended, 1_000)
    expect(world.counts()).toMatchObject({
      historyCapacityLimitedByReaders: 2,
      historySavedBlocks: 3,
    })
    expect(['c', 'd', 'e'].map(world.isStored)).toEqual([true, false, false])
    const restored = world.history.restore(lease, Uint32Array.of(9_000))
    expect(await world.clock.wait(restored, 1_000)).toMatchObject({ deviceBlockCount: 1 })
    expect(world.copies.content.engine[9_000]).toEqual(['a/0', 'a/1'])
  })

  test('a copy without an end: the blocks are free at its deadline, its slots only when it ends', async () => {
    const world = createWorld({ device: 1, host: 0 })
    world.copies.decide = () => ({ fate: 'never', delayMs: 0 })
    await world.save('a')
    await world.clock.advance(0)
    expect(world.counts()).toEqual({ historyFailures: 1, historyCopiesOverdue: 1 })
    expect(world.history.gauges()).toMatchObject({ slotsQuarantined: 1 })
    world.copies.decide = () => ({ fate: 'done', delayMs: 0 })
    expect(world.offer(['b'])).toBeNull()
    expect(world.counts()).toMatchObject({ historySkippedRequests: 1 })
    // The engine's block has another owner by now: what was copied of it must not be found.
    world.copies.compute(100, 'another prompt')
    world.copies.endHanging('done')
    await world.clock.advance(0)
    expect(world.isStored('a')).toBe(false)
    expect(world.history.gauges()).toMatchObject({ slotsQuarantined: 0 })
    await world.save('c')
    expect(await world.load('c')).toBe(1)
    expect(world.copies.conflicts).toEqual([])
  })

  test('a demotion without an end starts no copy of blocks that were given back', async () => {
    const world = createWorld({ device: 1, host: 1, policy: 'copy-on-eviction' })
    await world.save('a')
    world.copies.decide = () => ({ fate: 'never', delayMs: 0 })
    await world.save('b')
    world.copies.decide = () => ({ fate: 'done', delayMs: 0 })
    const copied = world.copies.log.length
    world.copies.endHanging('done')
    await world.clock.advance(0)
    expect(world.copies.log.length).toBe(copied + 1)
    expect(await world.load('a')).toBe(1)
    expect(world.isStored('b')).toBe(false)
    await world.save('c')
    expect(await world.load('c')).toBe(1)
  })

  test('closing with a copy without an end says so and keeps the memory', async () => {
    const error = vi.fn()
    const world = createWorld({ device: 1, host: 0, logger: { ...silentLogger, error } })
    world.copies.decide = () => ({ fate: 'never', delayMs: 0 })
    void world.offer(['a'])
    await world.clock.wait(world.history.close(), 2 * historyLimits.copyDeadlineMs)
    expect(error).toHaveBeenCalledOnce()
    expect(world.copies.isClosed).toBe(false)
  })

  test('a prefix is not displaced by its own continuation', async () => {
    const world = createWorld({ device: 1, host: 1, policy: 'copy-on-eviction' })
    await world.save('h')
    await world.save('x')
    const pinned = world.history.reserve(keysOf(['x']), 0)
    expect(pinned).not.toBeNull()
    await world.save('h', 'm')
    expect(world.history.lookup(keysOf(['h', 'm']), 0)).toBe(1)
    expect(world.counts()).toMatchObject({ historyCapacityLimitedByReaders: 1 })
  })
})
