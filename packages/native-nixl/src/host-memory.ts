/**
 * Host memory that transfers may touch: private pages, 2 MiB-aligned, zeroed, on huge pages by default
 * (page pinning dominates same-host copies), or, where another process must map the same pages, a memfd.
 * JS thread. The pages stay mapped while an agent or a kernel uses them, whatever happens to these objects.
 */
import { constants } from 'node:buffer'
import type { KvMemory, KvMemoryAllocator } from '@kvferry/connector-api'
import type { NativeMemory } from './binding.ts'
import { loadBinding } from './load-binding.ts'
import { assertSize, keepNative, nativeMemoryOf } from './native-memory.ts'
import { callNative } from './nixl-error.ts'

/** Memory that lies in a file, so that another process can map the same pages by its descriptor. */
export interface SharedKvMemory extends KvMemory {
  /**
   * Owned by the memory, closed on exec, closed by `free`; -1 from then on. Hand it to a child through
   * `stdio`, or to any process through `sendFd`.
   */
  readonly fd: number
}

class HostMemory implements KvMemory {
  readonly kind = 'host'
  readonly sizeBytes: number
  protected readonly native: NativeMemory
  #bytes: Uint8Array | null = null
  #isFreed = false

  constructor(native: NativeMemory, sizeBytes: number) {
    this.sizeBytes = sizeBytes
    this.native = native
    keepNative(this, native)
  }

  /** Made on first use: a view of many GiB would weigh on the garbage collector for nothing. */
  get bytes(): Uint8Array {
    if (this.#bytes !== null) return this.#bytes
    if (this.sizeBytes > constants.MAX_LENGTH) {
      throw new RangeError(`a view of ${this.sizeBytes} bytes is more than this Node can make`)
    }
    // Node itself refuses to move such a buffer to another thread.
    this.#bytes = new Uint8Array(this.native.buffer())
    return this.#bytes
  }

  get isFreed(): boolean {
    return this.#isFreed
  }

  free(): void {
    callNative({ operation: 'free' }, () => this.native.free())
    this.#isFreed = true
  }
}

class SharedHostMemory extends HostMemory implements SharedKvMemory {
  get fd(): number {
    return this.native.descriptor()
  }
}

/** Address in hexadecimal, for debugging tools outside the process. Nothing in the product uses it. */
export function addressForDebug(memory: KvMemory): string {
  return `0x${nativeMemoryOf(memory).address().toString(16)}`
}

export interface HostAllocatorOptions {
  /** Default true. Advice to the system, which gives memfds huge pages only where it is set up so. */
  readonly hugePages?: boolean
}

/** An allocator whose memory another process can map. */
export interface SharedKvMemoryAllocator extends KvMemoryAllocator {
  allocate(options: { readonly sizeBytes: number }): SharedKvMemory
}

/**
 * `shared`: memory in a memfd (sealed against shrinking) instead of private pages; use it only where
 * another process must map it, since private pages copy faster.
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE when the addon is not built. `allocate` throws RangeError
 *   for a size that is no positive integer, ConnectorError ERR_KV_LIMIT when the system has no memory.
 */
export function createHostAllocator(
  options: HostAllocatorOptions & { readonly shared: true },
): SharedKvMemoryAllocator
export function createHostAllocator(
  options?: HostAllocatorOptions & { readonly shared?: false },
): KvMemoryAllocator
export function createHostAllocator(
  options: HostAllocatorOptions & { readonly shared?: boolean } = {},
): KvMemoryAllocator {
  const binding = loadBinding()
  const isHuge = options.hugePages ?? true
  const isShared = options.shared ?? false
  return {
    allocate({ sizeBytes }) {
      assertSize(sizeBytes)
      const native = callNative(
        { operation: 'allocate' },
        () => new binding.Memory(sizeBytes, isHuge, isShared || null),
      )
      return isShared ? new SharedHostMemory(native, sizeBytes) : new HostMemory(native, sizeBytes)
    },
  }
}

/**
 * Memory of another process: maps the first `sizeBytes` of the memfd (or file in memory) behind `fd`,
 * shared with whoever else maps it, and keeps a duplicate of `fd`, which the caller may close. `free`
 * unmaps it here; the other process keeps its pages. The file is sealed against shrinking if its maker
 * allows sealing; otherwise shrinking it later ends this process (SIGBUS), so import from trusted makers.
 * @throws RangeError for a size that is no positive integer or an `fd` that isn't open; ConnectorError
 *   ERR_KV_MESSAGE_INVALID (no file in memory, fewer bytes in it, not writable: the details say which),
 *   ERR_KV_LIMIT (no room to map it), ERR_NIXL_UNAVAILABLE (the addon is not built).
 */
export function importHostMemory(options: {
  readonly fd: number
  readonly sizeBytes: number
}): SharedKvMemory {
  const { fd, sizeBytes } = options
  assertSize(sizeBytes)
  if (!Number.isSafeInteger(fd) || fd < 0) {
    throw new RangeError(`fd must be an open descriptor, not ${fd}`)
  }
  const binding = loadBinding()
  const native = callNative(
    { operation: 'importHostMemory' },
    () => new binding.Memory(sizeBytes, true, fd),
  )
  return new SharedHostMemory(native, sizeBytes)
}
