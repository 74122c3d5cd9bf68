/** Memory in a memfd, mapped by another process, moved by NIXL for a third; and what import refuses. */
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ConnectorError } from '@kvferry/connector-api'
import {
  createHostAllocator,
  createKernels,
  createNixlAgent,
  importHostMemory,
  sendFd,
} from '../src/index.ts'
import { Fixture } from './children.ts'
import { fakeLibraryPath } from './fake-library.ts'
import {
  blockCount,
  blockSizeBytes,
  readIds,
  writtenIds,
  type HostAddress,
} from './shared-memory-blocks.ts'
import { describeWithNixl } from './nixl-availability.ts'

const shared = createHostAllocator({ shared: true })

function codeOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    return ConnectorError.isInstance(error) ? error.code : (error as Error).name
  }
  return 'nothing thrown'
}

describe('memory in a memfd', () => {
  test('is zeroed, and what is written on one side is seen on the other', () => {
    const ours = shared.allocate({ sizeBytes: 2 * 1_048_576 + 100 })
    const theirs = importHostMemory({ fd: ours.fd, sizeBytes: ours.sizeBytes })
    expect(theirs.bytes!.every((byte) => byte === 0)).toBe(true)
    ours.bytes!.set([1, 2, 3], 2 * 1_048_576 + 97)
    expect([...theirs.bytes!.subarray(2 * 1_048_576 + 96)]).toEqual([0, 1, 2, 3])
    theirs.bytes![0] = 9
    expect(ours.bytes![0]).toBe(9)
    // The import lives on without its maker.
    ours.free()
    expect(ours.fd).toBe(-1)
    expect([theirs.bytes![0], theirs.bytes!.at(-1)]).toEqual([9, 3])
    theirs.free()
    theirs.free()
    expect(theirs.bytes).toHaveLength(0)
  })

  test('import keeps a descriptor of its own, and gives it back', () => {
    const ours = shared.allocate({ sizeBytes: 4_096 })
    const theirs = importHostMemory({ fd: ours.fd, sizeBytes: 100 })
    const { fd } = theirs
    expect(fd).not.toBe(ours.fd)
    theirs.free()
    expect(theirs.fd).toBe(-1)
    expect(() => closeSync(fd)).toThrow('EBADF')
    ours.free()
  })

  test('nobody can shrink it', () => {
    const ours = shared.allocate({ sizeBytes: 8_192 })
    expect(() => ftruncateSync(ours.fd, 4_096)).toThrow('EPERM')
    ours.free()
  })

  test('registered, it is busy; kernels and agents take it', async () => {
    const memory = shared.allocate({ sizeBytes: 65_536 })
    const agent = await createNixlAgent({ name: 'shared-memory', libraryPath: fakeLibraryPath })
    const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: 65_536 })
    expect(codeOf(() => memory.free())).toBe('ERR_KV_BUSY')
    await agent.deregisterRegion(region)
    await agent.close()
    const layout = { offsetBytes: 0, blockSizeBytes: 64, blockStrideBytes: 64, blockCount: 4 }
    const caches = {
      ...{ model: 'test', dtype: 'int8', layout: 'LBNHC', layerCount: 1, kvHeadCount: 1 },
      ...{ headSize: 8, blockTokens: 4, blockCount: 4 },
      regions: [{ name: 'layer', memory, ...layout }],
    }
    const slots = { blockIds: Uint32Array.of(3), offsets: Uint32Array.of(3) }
    const kernels = createKernels({ threads: 1 })
    const filled = await kernels.fill(caches, slots, BigUint64Array.of(5n))
    const copy = importHostMemory({ fd: memory.fd, sizeBytes: 4_096 })
    const regions = [{ name: 'layer', memory: copy, ...layout }]
    expect(await kernels.digest({ ...caches, regions }, slots)).toEqual(filled)
    memory.free()
    copy.free()
  })
})

describe('import', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kvferry-import-'))
  const withFile = (path: string, flags: string, run: (fd: number) => void) => {
    writeFileSync(path, Buffer.alloc(4_096))
    const fd = openSync(path, flags)
    try {
      run(fd)
    } finally {
      closeSync(fd)
      rmSync(path)
    }
  }

  test('takes a file in memory that somebody else made', () => {
    withFile(`/dev/shm/kvferry-import-${process.pid}`, 'r+', (fd) => {
      const memory = importHostMemory({ fd, sizeBytes: 4_096 })
      expect(memory.bytes).toHaveLength(4_096)
      memory.free()
    })
  })

  test.each<[string, string, number]>([
    ['more than the file holds', 'r+', 4_097],
    ['what is open for reading only', 'r', 4_096],
  ])('refuses %s', (_, flags, sizeBytes) => {
    withFile(`/dev/shm/kvferry-import-${process.pid}`, flags, (fd) => {
      expect(codeOf(() => importHostMemory({ fd, sizeBytes }))).toBe('ERR_KV_MESSAGE_INVALID')
    })
  })

  test('refuses a directory and a device', () => {
    for (const path of [folder, '/dev/zero']) {
      const fd = openSync(path, 'r')
      const attempt = () => importHostMemory({ fd, sizeBytes: 4_096 })
      expect(codeOf(attempt), path).toBe('ERR_KV_MESSAGE_INVALID')
      closeSync(fd)
    }
    rmSync(folder, { recursive: true })
  })

  test.each([-1, 0.5, NaN, 1_000_000, 2 ** 40])('refuses the descriptor %d', (fd) => {
    expect(() => importHostMemory({ fd, sizeBytes: 4_096 })).toThrow(RangeError)
  })

  test.each([0, -1, 0.5, NaN])('refuses a size of %d', (sizeBytes) => {
    const memory = shared.allocate({ sizeBytes: 4_096 })
    expect(() => importHostMemory({ fd: memory.fd, sizeBytes })).toThrow(RangeError)
    memory.free()
  })
})

describeWithNixl(() => {
  test("a third process reads and writes an engine's blocks through the host that mapped them", async () => {
    const memory = shared.allocate({ sizeBytes: blockSizeBytes * blockCount })
    const before = Buffer.alloc(memory.sizeBytes, 0).map(
      (_, at) => (at * 31 + (at >> 14) * 7) & 255,
    )
    memory.bytes!.set(before)
    const host = new Fixture('shared-memory', { parameters: ['host'], hasPair: true })
    const client = new Fixture('shared-memory', { parameters: ['client'] })
    try {
      const message = Buffer.from(String(memory.sizeBytes))
      await sendFd(host.pairFd, memory.fd, { timeoutMs: 60_000, message })
      const [address] = await Promise.all([host.message<HostAddress>(), client.message<string>()])
      client.port.send(address)
      const { statuses, bytes } = await client.message<{ statuses: string[]; bytes: Uint8Array }>()
      expect(statuses).toEqual(['done', 'done'])
      const block = (from: Uint8Array, id: number) =>
        Buffer.from(from.subarray(id * blockSizeBytes, (id + 1) * blockSizeBytes))
      for (const id of readIds) expect(block(bytes, id).equals(block(before, id))).toBe(true)
      const after = Buffer.from(before)
      writtenIds.forEach((id, index) => {
        const source = block(before, readIds[index]!)
        after.set(
          source.map((byte) => byte ^ 0xff),
          id * blockSizeBytes,
        )
      })
      expect(after.equals(memory.bytes!)).toBe(true)
      host.port.send('end')
      expect(await host.message()).toBe('freed')
      expect(await host.exit(60_000), host.output).toEqual({ code: 0, signal: null })
      expect(await client.exit(60_000), client.output).toEqual({ code: 0, signal: null })
    } finally {
      await Promise.all([host.kill(), client.kill()])
      memory.free()
    }
  })
})
