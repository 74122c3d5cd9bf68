/**
 * Events of a GPU, for fences: a transfer that waits for one leaves when the GPU has done what comes before it, without
 * this process being told. Ours, another process's (an engine's) by its handle, or one of this process that an
 * engine owns. JS thread; nothing here waits for the GPU.
 */
import type { DeviceEvent } from '@kvferry/connector-api'
import type { NativeDeviceEvent } from './binding.ts'
import { assertDevice, cudaLibrary } from './cuda.ts'
import { loadBinding } from './load-binding.ts'
import { callNative } from './nixl-error.ts'

/** An event that `signalFence` of an agent on its GPU takes. */
export interface CudaEvent extends DeviceEvent {
  /**
   * Marks what was enqueued so far in a stream of the GPU (the driver's pointer to it; 0n: the context's own). Before
   * that it can be waited for by nobody. An event that is recorded again means the later moment, also to who waits
   * already: never too early, but use one for each moment.
   * @throws ConnectorError ERR_KV_UNSUPPORTED for one that was imported, ERR_CUDA; RangeError once freed.
   */
  record(stream: bigint): void
  /**
   * Whether the GPU has done what comes before it; false while it was not recorded. Asks, never waits.
   * @throws ConnectorError ERR_CUDA: the GPU failed; RangeError once freed.
   */
  isDone(): boolean
  /**
   * 64 bytes for `importDeviceEvent` of other processes, as `cuIpcGetEventHandle` makes them.
   * @throws ConnectorError ERR_KV_UNSUPPORTED for one that was imported; RangeError once freed.
   */
  exportHandle(): Uint8Array
  /** Idempotent. Fences keep what they wait for. */
  free(): void
}

const natives = new WeakMap<object, NativeDeviceEvent>()

class OpenEvent implements CudaEvent {
  readonly kind = 'cuda'
  readonly device: number
  readonly #native: NativeDeviceEvent

  constructor(native: NativeDeviceEvent, device: number) {
    this.#native = native
    this.device = device
    natives.set(this, native)
  }

  record(stream: bigint): void {
    callNative({ operation: 'record' }, () => this.#native.record(stream))
  }

  isDone(): boolean {
    return callNative({ operation: 'isDone' }, () => this.#native.isDone())
  }

  exportHandle(): Uint8Array {
    return callNative({ operation: 'exportHandle' }, () => this.#native.exportHandle())
  }

  free(): void {
    this.#native.free()
  }
}

function open(operation: string, device: number, source: null | bigint | Uint8Array): CudaEvent {
  assertDevice(device)
  const binding = loadBinding()
  const make = () => new binding.DeviceEvent(cudaLibrary(), device, source)
  return new OpenEvent(callNative({ operation }, make), device)
}

/**
 * An event of ours, not yet recorded.
 * @throws RangeError for `device`; ConnectorError ERR_CUDA_UNAVAILABLE, ERR_CUDA, ERR_NIXL_UNAVAILABLE (the addon is not built).
 */
export function createDeviceEvent(options: { readonly device: number }): CudaEvent {
  return open('createDeviceEvent', options.device, null)
}

/**
 * An event that somebody else has recorded: another process, whose `handle` has 64 bytes (`cuIpcGetEventHandle`, or PyTorch's
 * `Event(interprocess=True).ipc_handle()`), or an engine in this process, by the driver's pointer to it. The driver
 * says "done" of an event that was never recorded, so take it only after it was. The owner of a pointer keeps the event
 * until nothing waits for it; what an event says once its process has died isn't promised: watch the process.
 * @throws RangeError for `device`, a null pointer; ConnectorError ERR_KV_MESSAGE_INVALID (no handle), ERR_CUDA (the driver refuses
 *   it, as in the process that made it), ERR_CUDA_UNAVAILABLE, ERR_NIXL_UNAVAILABLE.
 */
export function importDeviceEvent(
  options: { readonly device: number } & (
    { readonly handle: Uint8Array } | { readonly event: bigint }
  ),
): CudaEvent {
  const source = 'handle' in options ? options.handle : options.event
  return open('importDeviceEvent', options.device, source)
}

/** @throws TypeError for an event that isn't of this package. */
export function nativeEventOf(event: DeviceEvent): NativeDeviceEvent {
  const native = natives.get(event)
  if (native === undefined) {
    throw new TypeError('event must come from createDeviceEvent or importDeviceEvent')
  }
  return native
}
