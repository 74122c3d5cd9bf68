/** Which native memory stands behind a KvMemory of this package, of the host or of a GPU. JS thread. */
import type { KvMemory } from '@kvferry/connector-api'
import type { NativeMemory } from './binding.ts'

/** Both kinds know whether they were freed; the contract doesn't ask. */
interface Freeable extends KvMemory {
  readonly isFreed: boolean
}

const natives = new WeakMap<KvMemory, NativeMemory>()

export function keepNative(memory: Freeable, native: NativeMemory): void {
  natives.set(memory, native)
}

/**
 * The native memory behind `memory`.
 * @throws TypeError when another maker allocated it; RangeError when it was freed.
 */
export function nativeMemoryOf(memory: KvMemory): NativeMemory {
  const native = natives.get(memory)
  if (native === undefined) {
    throw new TypeError(
      'memory is none of @kvferry/native-nixl (createHostAllocator, importHostMemory, createDeviceAllocator, importDeviceMemory)',
    )
  }
  if ((memory as Freeable).isFreed) throw new RangeError('memory was freed')
  return native
}

/** @throws RangeError */
export function assertSize(sizeBytes: number): void {
  if (!Number.isSafeInteger(sizeBytes) || sizeBytes <= 0) {
    throw new RangeError(`sizeBytes must be a positive integer, not ${sizeBytes}`)
  }
}
