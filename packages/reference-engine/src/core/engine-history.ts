/**
 * The history that connectors of this engine may open, over the engine's own memory and kernels, and what
 * its tiers take. The device tier lies where the KV does: without a GPU it is a second arena in host memory.
 */
import type {
  HistoryOptions,
  HistoryProvider,
  KvHistory,
  KvKernels,
  KvMemory,
  KvMemoryAllocator,
} from '@kvferry/connector-api'
import { tieredHistory } from '@kvferry/kv-history'

export interface HistoryParts {
  readonly kernels: KvKernels
  readonly allocator: KvMemoryAllocator
  readonly hostAllocator: KvMemoryAllocator
  /** What the first one allocates. */
  readonly memory: KvMemory['kind']
}

export class EngineHistory implements HistoryProvider {
  readonly #provider: HistoryProvider
  readonly #opened: KvHistory[] = []

  constructor(parts: HistoryParts) {
    const { kernels, allocator, hostAllocator, memory } = parts
    const device = { allocator, memory }
    this.#provider = tieredHistory({ kernels, device, host: { allocator: hostAllocator } })
  }

  open(options: HistoryOptions): KvHistory {
    const history = this.#provider.open(options)
    this.#opened.push(history)
    return history
  }

  /** Of the histories of all ranks. */
  reservedBytes(): { readonly device: number; readonly host: number } {
    const gauges = this.#opened.map((history) => history.gauges())
    return {
      device: gauges.reduce((sum, { deviceBytesReserved }) => sum + deviceBytesReserved, 0),
      host: gauges.reduce((sum, { hostBytesReserved }) => sum + hostBytesReserved, 0),
    }
  }
}
