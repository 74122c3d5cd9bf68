/**
 * GPU memory for suites that look at bytes: `bytes` is a copy made when it is asked for, and what is `set` into it goes
 * to the GPU.
 */
import type { KvMemory, KvMemoryAllocator } from '@kvferry/connector-api'
import type { DeviceAllocator, DeviceKvMemory } from '../src/index.ts'

class DeviceBytes extends Uint8Array {
  static get [Symbol.species]() {
    return Uint8Array
  }
  memory: DeviceKvMemory | null = null

  override set(from: ArrayLike<number>, offset = 0): void {
    super.set(from, offset)
    this.memory?.write(offset, Uint8Array.from(from))
  }
}

/** The memory itself, with bytes. */
export function withBytes(memory: DeviceKvMemory): KvMemory {
  return Object.defineProperty(memory as KvMemory, 'bytes', {
    get() {
      const { isFreed } = memory as DeviceKvMemory & { readonly isFreed: boolean }
      const bytes = new DeviceBytes(isFreed ? 0 : memory.sizeBytes)
      bytes.memory = memory
      if (!isFreed) memory.read(0, bytes)
      return bytes
    },
  })
}

export const allocatorWithBytes = (allocator: DeviceAllocator): KvMemoryAllocator => ({
  allocate: (options) => withBytes(allocator.allocate(options)),
})
