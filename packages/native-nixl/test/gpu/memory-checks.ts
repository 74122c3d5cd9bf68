/** GPU memory: what is promised of each kind, and what is refused. */
import assert from 'node:assert/strict'
import { closeSync } from 'node:fs'
import { ConnectorError } from '@kvferry/connector-api'
import { createDeviceAllocator, cudaInfo, importDeviceMemory } from '../../src/index.ts'
import { Fixture } from '../children.ts'
import type { GpuCheck, GpuScope } from './check.ts'

const sizeBytes = 3 << 20
const pattern = (seed: number, length = 4_096) =>
  Uint8Array.from({ length }, (_, at) => (at * 31 + seed + (at >> 8)) & 255)

function assertCode(code: string, run: () => unknown): void {
  assert.throws(run, (error) => ConnectorError.isInstance(error) && error.code === code)
}

export function memoryChecks(scope: GpuScope): GpuCheck[] {
  return [
    {
      name: 'the driver names its GPUs and the links between them',
      async run() {
        const { driver, gpus, links } = cudaInfo()
        assert.match(driver, /^\d+\.\d+$/)
        assert.equal(gpus.length, scope.gpuCount)
        assert.equal(links.length, scope.gpuCount * (scope.gpuCount - 1))
        for (const gpu of gpus) assert.match(gpu.uuid, /^GPU-[0-9a-f-]{36}$/)
      },
    },
    {
      name: 'memory is zeroed, keeps what is written, and is gone once freed',
      async run() {
        const memory = createDeviceAllocator({ device: 0 }).allocate({ sizeBytes })
        assert.deepEqual([memory.kind, memory.bytes, memory.device], ['cuda', null, 0])
        const bytes = new Uint8Array(sizeBytes).fill(1)
        memory.read(0, bytes)
        assert.ok(bytes.every((byte) => byte === 0))
        memory.write(sizeBytes - 4_096, pattern(1))
        const found = new Uint8Array(4_096)
        memory.read(sizeBytes - 4_096, found)
        assert.deepEqual(found, pattern(1))
        assert.throws(() => memory.read(sizeBytes - 4_095, found), RangeError)
        memory.free()
        memory.free()
        assert.throws(() => memory.read(0, found), RangeError)
      },
    },
    {
      name: 'refused: a GPU that isn’t there, no size, more than there is, no handle, an own handle',
      async run() {
        const missing = createDeviceAllocator({ device: 99 })
        assert.throws(() => missing.allocate({ sizeBytes }), RangeError)
        assert.throws(() => createDeviceAllocator({ device: -1 }), RangeError)
        const allocator = createDeviceAllocator({ device: 0 })
        assert.throws(() => allocator.allocate({ sizeBytes: 0 }), RangeError)
        assertCode('ERR_KV_LIMIT', () => allocator.allocate({ sizeBytes: 2 ** 50 }))
        for (const handle of [new Uint8Array(3), new Uint8Array(88)]) {
          assertCode('ERR_KV_MESSAGE_INVALID', () => importDeviceMemory({ device: 0, handle }))
        }
        const memory = allocator.allocate({ sizeBytes })
        const handle = memory.exportHandle()
        assertCode('ERR_CUDA', () => importDeviceMemory({ device: 0, handle }))
        assertCode('ERR_KV_UNSUPPORTED', () => memory.exportFd())
        memory.free()
      },
    },
    {
      name: 'virtual memory is no target, and can be mapped twice by its descriptor',
      async run() {
        const memory = createDeviceAllocator({ device: 0, virtual: true }).allocate({ sizeBytes })
        assert.equal(memory.isTarget, false)
        assertCode('ERR_KV_UNSUPPORTED', () => memory.exportHandle())
        const fd = memory.exportFd()
        const again = importDeviceMemory({ device: 0, fd, sizeBytes })
        closeSync(fd)
        assert.equal(again.isTarget, false)
        memory.write(4_096, pattern(2))
        const found = new Uint8Array(4_096)
        again.read(4_096, found)
        assert.deepEqual(found, pattern(2))
        memory.free()
        again.read(4_096, found)
        assert.deepEqual(found, pattern(2))
        again.free()
      },
    },
    {
      name: 'memory of another process is mapped by handle, is no target, and outlives its owner',
      async run() {
        const owner = new Fixture('device-owner', { parameters: [String(scope.gpuCount - 1)] })
        try {
          const { handle } = await owner.message<{ handle: Uint8Array }>()
          const memory = importDeviceMemory({ device: 0, handle })
          assert.equal(memory.isTarget, false)
          assertCode('ERR_KV_UNSUPPORTED', () => memory.exportHandle())
          const found = new Uint8Array(4_096)
          memory.read(8_192, found)
          assert.deepEqual(found, pattern(3))
          memory.write(0, pattern(4))
          owner.process.send('read')
          assert.deepEqual((await owner.message<{ bytes: Uint8Array }>()).bytes, pattern(4))
          await owner.kill()
          memory.read(8_192, found)
          assert.deepEqual(found, pattern(3))
          memory.free()
        } finally {
          await owner.kill()
        }
      },
    },
  ]
}
