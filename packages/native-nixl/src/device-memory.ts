/**
 * GPU memory that transfers and kernels may touch. JS sees neither addresses nor bytes, except through the
 * blocking copies for tests and tools. JS thread; the memory stays while an agent or a kernel uses it.
 */
import type { KvMemory, KvMemoryAllocator } from '@kvferry/connector-api'
import type { NativeMemory } from './binding.ts'
import { assertDevice, cudaLibrary } from './cuda.ts'
import { assertSize, keepNative, nativeMemoryOf } from './native-memory.ts'
import { loadBinding } from './load-binding.ts'
import { callNative } from './nixl-error.ts'

/** Memory of one GPU. */
export interface DeviceKvMemory extends KvMemory {
  readonly kind: 'cuda'
  readonly bytes: null
  /** Number of the GPU in this process. */
  readonly device: number
  /**
   * Peers can reach it through NIXL. False for imported and virtual memory, which is a local side only; peers
   * reach it by slabs.
   */
  readonly isTarget: boolean
  /**
   * Names the memory to `importDeviceMemory` of other processes of this machine. Whoever has it can read and write
   * the memory, also after it was freed here.
   * @throws ConnectorError ERR_KV_UNSUPPORTED for what is no target.
   */
  exportHandle(): Uint8Array
  /**
   * Virtual memory only: an open descriptor for `importDeviceMemory` of other processes, closed by the caller.
   * @throws ConnectorError ERR_KV_UNSUPPORTED
   */
  exportFd(): number
  /** Copies from the GPU. Blocks. @throws RangeError beyond the memory, and once freed. */
  read(offsetBytes: number, into: Uint8Array): void
  /** Copies to the GPU. Blocks. @throws RangeError beyond the memory, and once freed. */
  write(offsetBytes: number, from: Uint8Array): void
}

export interface DeviceAllocator extends KvMemoryAllocator {
  allocate(options: { readonly sizeBytes: number }): DeviceKvMemory
}

class DeviceMemory implements DeviceKvMemory {
  readonly kind = 'cuda'
  readonly bytes = null
  readonly sizeBytes: number
  readonly device: number
  readonly isTarget: boolean
  readonly #native: NativeMemory
  #isFreed = false

  constructor(native: NativeMemory, sizeBytes: number, device: number) {
    this.#native = native
    this.sizeBytes = sizeBytes
    this.device = device
    this.isTarget = native.isTarget()
    keepNative(this, native)
  }

  get isFreed(): boolean {
    return this.#isFreed
  }

  free(): void {
    callNative({ operation: 'free' }, () => this.#native.free())
    this.#isFreed = true
  }

  exportHandle(): Uint8Array {
    return callNative({ operation: 'exportHandle' }, () => this.#native.exportHandle())
  }

  exportFd(): number {
    return callNative({ operation: 'exportFd' }, () => this.#native.exportDescriptor())
  }

  read(offsetBytes: number, into: Uint8Array): void {
    callNative({ operation: 'read' }, () => this.#native.read(offsetBytes, into))
  }

  write(offsetBytes: number, from: Uint8Array): void {
    callNative({ operation: 'write' }, () => this.#native.write(offsetBytes, from))
  }
}

/**
 * Zeroed memory of a GPU in allocations of its own, rounded up to 2 MiB.
 * `virtual`: of the kind that engines which can sleep use. Peers reach that only by slabs; only tests need it.
 * @throws RangeError for `device`; ConnectorError ERR_CUDA_UNAVAILABLE, ERR_CUDA, ERR_NIXL_UNAVAILABLE (the addon is
 *   not built). `allocate` throws RangeError, ERR_KV_LIMIT (the GPU has no such memory left), and these.
 */
export function createDeviceAllocator(options: {
  readonly device: number
  readonly virtual?: boolean
}): DeviceAllocator {
  const { device, virtual = false } = options
  assertDevice(device)
  const binding = loadBinding()
  const library = cudaLibrary()
  // What can't work is said now, not when an engine allocates.
  callNative({ operation: 'createDeviceAllocator' }, () => binding.cudaInfo(library))
  return {
    allocate({ sizeBytes }) {
      assertSize(sizeBytes)
      const native = callNative(
        { operation: 'allocate' },
        () => new binding.Memory(sizeBytes, virtual, null, library, device),
      )
      return new DeviceMemory(native, sizeBytes, device)
    },
  }
}

/**
 * Memory of another process, mapped for GPU `device`. It stays mapped after its owner has freed it or ended, so
 * that nothing here faults; whether its bytes still mean something, the owner must say.
 * @throws RangeError for `device`, `sizeBytes`; ConnectorError ERR_KV_MESSAGE_INVALID (no handle), ERR_CUDA (the driver
 *   refuses it, as in the process that made it), ERR_CUDA_UNAVAILABLE, ERR_NIXL_UNAVAILABLE.
 */
export function importDeviceMemory(
  options: { readonly device: number } & (
    { readonly handle: Uint8Array } | { readonly fd: number; readonly sizeBytes: number }
  ),
): DeviceKvMemory {
  const { device } = options
  assertDevice(device)
  const source = 'handle' in options ? options.handle : options.fd
  // A handle says itself how much it names.
  const sizeBytes = 'handle' in options ? 0 : options.sizeBytes
  if ('fd' in options) assertSize(sizeBytes)
  const binding = loadBinding()
  const native = callNative(
    { operation: 'importDeviceMemory' },
    () => new binding.Memory(sizeBytes, false, source, cudaLibrary(), device),
  )
  return new DeviceMemory(native, native.sizeBytes(), device)
}

/**
 * Page-locks host memory for copies to and from a GPU, until it is freed: kernels then reach it beside the GPU's.
 * Shared memory can be locked in each process that maps it, which makes it the fast way between the two.
 * @throws TypeError, RangeError; ConnectorError ERR_KV_BUSY (locked for another GPU), ERR_CUDA, ERR_CUDA_UNAVAILABLE.
 */
export function lockHostMemory(memory: KvMemory, options: { readonly device: number }): void {
  assertDevice(options.device)
  const native = nativeMemoryOf(memory)
  callNative({ operation: 'lockHostMemory' }, () => native.lockFor(cudaLibrary(), options.device))
}
