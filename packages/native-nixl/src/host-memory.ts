/**
 * Host memory that transfers may touch: private pages, 2 MiB-aligned, zeroed, on huge pages by default
 * (page pinning dominates same-host copies). JS thread. The pages stay mapped while an agent or a kernel
 * uses them, whatever happens to these objects.
 */
import { constants } from 'node:buffer'
import type { KvMemory, KvMemoryAllocator } from '@kvferry/connector-api'
import type { NativeMemory } from './binding.ts'
import { loadBinding } from './load-binding.ts'
import { callNative } from './nixl-error.ts'

const natives = new WeakMap<KvMemory, NativeMemory>()

class HostMemory implements KvMemory {
  readonly kind = 'host'
  readonly sizeBytes: number
  readonly #native: NativeMemory
  #bytes: Uint8Array | null = null
  #isFreed = false

  constructor(native: NativeMemory, sizeBytes: number) {
    this.sizeBytes = sizeBytes
    this.#native = native
    natives.set(this, native)
  }

  /** Made on first use: a view of many GiB would weigh on the garbage collector for nothing. */
  get bytes(): Uint8Array {
    if (this.#bytes !== null) return this.#bytes
    if (this.sizeBytes > constants.MAX_LENGTH) {
      throw new RangeError(`a view of ${this.sizeBytes} bytes is more than this Node can make`)
    }
    // Node itself refuses to move such a buffer to another thread.
    this.#bytes = new Uint8Array(this.#native.buffer())
    return this.#bytes
  }

  get isFreed(): boolean {
    return this.#isFreed
  }

  free(): void {
    callNative({ operation: 'free' }, () => this.#native.free())
    this.#isFreed = true
  }
}

/**
 * The native memory behind `memory`.
 * @throws TypeError when another maker allocated it; RangeError when it was freed.
 */
export function nativeMemoryOf(memory: KvMemory): NativeMemory {
  const native = natives.get(memory)
  if (native === undefined) {
    throw new TypeError('memory was not allocated by createHostAllocator of @kvferry/native-nixl')
  }
  if ((memory as HostMemory).isFreed) throw new RangeError('memory was freed')
  return native
}

/** Address in hexadecimal, for debugging tools outside the process. Nothing in the product uses it. */
export function addressForDebug(memory: KvMemory): string {
  return `0x${nativeMemoryOf(memory).address().toString(16)}`
}

/**
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE when the addon is not built. `allocate` throws RangeError
 *   for a size that is no positive integer, ConnectorError ERR_KV_LIMIT when the system has no memory.
 */
export function createHostAllocator(
  options: { readonly hugePages?: boolean } = {},
): KvMemoryAllocator {
  const binding = loadBinding()
  const isHuge = options.hugePages ?? true
  return {
    allocate({ sizeBytes }) {
      if (!Number.isSafeInteger(sizeBytes) || sizeBytes <= 0) {
        throw new RangeError(`sizeBytes must be a positive integer, not ${sizeBytes}`)
      }
      const native = callNative(
        { operation: 'allocate' },
        () => new binding.Memory(sizeBytes, isHuge),
      )
      return new HostMemory(native, sizeBytes)
    },
  }
}
