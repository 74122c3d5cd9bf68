/** A1: memory and registration. */
import type { KvMemory } from '../../kv-memory.ts'
import type { GroupRuns } from './clause-run.ts'
import { bytesOf } from './context.ts'
import { assert, assertRefused } from './expect.ts'
import { blocks, checkExchange, denseRegion } from './fixtures.ts'

export const registration: GroupRuns<'A1'> = {
  async 'A1.1'(context) {
    // Twice, since freed memory may be given out again.
    for (let round = 0; round < 2; round += 1) {
      const memory = context.world.allocator.allocate({ sizeBytes: 12_345 })
      const bytes = bytesOf(memory)
      assert.equal(memory.sizeBytes, 12_345)
      assert.equal(bytes.length, 12_345)
      assert.ok(bytes.every((byte) => byte === 0))
      bytes.fill(0xff)
      memory.free()
    }
  },
  async 'A1.2'(context) {
    const memory = context.allocate(8_192)
    const region = await context.register(memory)
    await context.deregister(region)
    await assertRefused('deregistering again', 'RangeError', () =>
      context.wait(context.agent.deregisterRegion(region)),
    )
  },
  async 'A1.3'(context) {
    const memory = context.allocate(8_192)
    const ranges: [number, number][] = [
      [0, 0],
      [0, 8_193],
      [8_192, 1],
      [-1, 10],
      [0, -1],
      [0.5, 10],
      [0, 10.5],
      [NaN, 10],
      [0, Infinity],
      [Number.MAX_SAFE_INTEGER, 10],
      [2 ** 53, 2 ** 53],
    ]
    for (const [offsetBytes, lengthBytes] of ranges) {
      await assertRefused(`${lengthBytes} bytes at ${offsetBytes}`, 'RangeError', () =>
        context.wait(context.agent.registerRegion({ memory, offsetBytes, lengthBytes })),
      )
    }
    await context.register(memory, 8_191, 1)
  },
  async 'A1.4'(context) {
    const freed = context.world.allocator.allocate({ sizeBytes: 4_096 })
    freed.free()
    const bytes = new Uint8Array(4_096)
    const foreign: KvMemory = { kind: 'host', sizeBytes: 4_096, bytes, free() {} }
    for (const memory of [freed, foreign]) {
      await assertRefused('memory', ['TypeError', 'RangeError'], () =>
        context.wait(context.agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: 16 })),
      )
    }
  },
  async 'A1.5'(context) {
    const memory = context.allocate(4_096)
    const first = await context.register(memory, 0, 1_024)
    const second = await context.register(memory, 1_024, 1_024)
    await assertRefused('free', 'ERR_KV_BUSY', () => memory.free())
    await context.deregister(first)
    await assertRefused('free', 'ERR_KV_BUSY', () => memory.free())
    await context.deregister(second)
    memory.free()
    assert.equal(bytesOf(memory).length, 0)
  },
  async 'A1.6'(context) {
    const memory = context.world.allocator.allocate({ sizeBytes: 4_096 })
    const view = bytesOf(memory).subarray(16, 32)
    memory.free()
    memory.free()
    assert.equal(bytesOf(memory).length, 0)
    assert.equal(view.length, 0)
    assert.equal(memory.sizeBytes, 4_096)
  },
  async 'A1.7'(context) {
    const memory = context.allocate(4_096)
    const region = await context.register(memory)
    const layout = { blockSizeBytes: 64, blockStrideBytes: 64, blockCount: 4 }
    const table = context.agent.declareBlockTable([{ region, offsetBytes: 0, ...layout }])
    await assertRefused('deregister', 'ERR_KV_BUSY', () =>
      context.wait(context.agent.deregisterRegion(region)),
    )
    context.agent.releaseBlockTable(table)
    await context.deregister(region)
  },
  async 'A1.8'(context) {
    const remote = await context.remote([denseRegion(256, 16)])
    const local = await context.local([denseRegion(256, 16)])
    const overlapping = await context.register(local.memories[0]!, 256, 1_024)
    await context.deregister(overlapping)
    await checkExchange(
      context,
      { local, remote },
      { direction: 'read', local: blocks(0, 1, 2, 3), remote: blocks(3, 1, 0, 2) },
    )
  },
}
