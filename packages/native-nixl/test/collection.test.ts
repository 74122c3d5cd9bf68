import { describe, expect, test } from 'vitest'
import { ConnectorError } from '@kvferry/connector-api'
import { createHostAllocator } from '../src/index.ts'
import { Fixture, newerNodePath } from './children.ts'
import { fakeLibraryPath } from './fake-library.ts'

const allocator = createHostAllocator()

describe('host memory', () => {
  test('is zeroed, and one view of it is always the same', () => {
    const memory = allocator.allocate({ sizeBytes: 3 * 1_048_576 + 5 })
    expect(memory.bytes).toHaveLength(memory.sizeBytes)
    expect(memory.bytes?.every((byte) => byte === 0)).toBe(true)
    expect(memory.bytes).toBe(memory.bytes)
    memory.free()
  })

  test('free detaches every view, also those made before', () => {
    const memory = allocator.allocate({ sizeBytes: 4_096 })
    const view = new BigUint64Array(memory.bytes!.buffer, 64, 8)
    memory.free()
    memory.free()
    expect(view).toHaveLength(0)
    expect(memory.bytes).toHaveLength(0)
  })

  test('freed before it was ever looked at, it shows nothing', () => {
    const memory = allocator.allocate({ sizeBytes: 4_096 })
    memory.free()
    expect(memory.bytes).toHaveLength(0)
  })

  test('its buffer can not be moved to another thread', () => {
    const memory = allocator.allocate({ sizeBytes: 4_096 })
    const buffer = memory.bytes!.buffer as ArrayBuffer
    // Older versions of Node copy it instead, newer ones refuse.
    try {
      structuredClone(buffer, { transfer: [buffer] })
    } catch (error) {
      expect((error as Error).name).toBe('DataCloneError')
    }
    expect(memory.bytes).toHaveLength(4_096)
    memory.free()
  })

  test.each([0, -1, 0.5, NaN, 2 ** 53])('a size of %d is refused', (sizeBytes) => {
    expect(() => allocator.allocate({ sizeBytes })).toThrow(RangeError)
  })

  test('more than there is gives ERR_KV_LIMIT', () => {
    let error: unknown
    try {
      allocator.allocate({ sizeBytes: 2 ** 52 })
    } catch (caught) {
      error = caught
    }
    expect(ConnectorError.isInstance(error) && error.code).toBe('ERR_KV_LIMIT')
  })
})

test.each([
  ['this Node', process.execPath],
  ['Node 24', newerNodePath()],
])('what nobody frees is collected, in %s', { timeout: 120_000 }, async (_, execPath) => {
  const environment = { TEST_NIXL_LIBRARY: fakeLibraryPath }
  const child = new Fixture('collected', { environment, execPath })
  try {
    expect(await child.message()).toEqual({
      isMemoryUnmapped: true,
      isViewKept: true,
      isMovedKept: true,
      isRegisteredKept: true,
      areKernelThreadsEnded: true,
    })
    expect((await child.exit(60_000)).code).toBe(0)
  } finally {
    await child.kill()
  }
})
