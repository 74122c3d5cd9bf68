/**
 * The history that connectors of this engine may open, over the engine's own memory and kernels, and what
 * its tiers take. There is no GPU here: the device tier is a second arena in host memory.
 */
import type {
  HistoryOptions,
  HistoryProvider,
  KvHistory,
  KvKernels,
  KvMemoryAllocator,
} from '@kvferry/connector-api'
import { tieredHistory } from '@kvferry/kv-history'

export class EngineHistory implements HistoryProvider {
  readonly #provider: HistoryProvider
  readonly #opened: KvHistory[] = []

  constructor(kernels: KvKernels, allocator: KvMemoryAllocator) {
    const device = { allocator, memory: 'host' } as const
    this.#provider = tieredHistory({ kernels, device, host: { allocator } })
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
