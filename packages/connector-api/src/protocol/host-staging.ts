/**
 * A copy of the KV cache in host memory, for devices whose memory can't be registered (`bufferDevice:
 * host`): block `b` of the cache has its place as block `b` of the copy, and only the copy is registered,
 * read from and read into. Copies run one after the other, so that an older one never
 * ends up on top of a newer one.
 */
import {
  blockBytes,
  slabLayout,
  type AnyConnectorError,
  type KvCacheLayout,
  type KvKernels,
  type KvMemory,
  type WorkerComponents,
} from '../index.ts'
import { asConnectorError, unsupported } from './failures.ts'

export class HostStaging {
  /** The copy, in the cache's own order and block size. */
  readonly caches: KvCacheLayout
  readonly #device: KvCacheLayout
  readonly #kernels: KvKernels
  readonly #memory: KvMemory
  #last: Promise<unknown> = Promise.resolve()

  /** @throws ConnectorError ERR_KV_UNSUPPORTED (no allocator, no kernels), ERR_KV_LIMIT (no memory). */
  constructor({ allocator, kernels }: WorkerComponents, device: KvCacheLayout) {
    if (allocator === undefined || kernels === undefined) {
      throw unsupported('bufferDevice', 'host staging needs the engine’s allocator and kernels')
    }
    this.#device = device
    this.#kernels = kernels
    this.#memory = allocator.allocate({ sizeBytes: blockBytes(device) * device.blockCount })
    this.caches = slabLayout(device, { memory: this.#memory, offsetBytes: 0 }, device.blockCount)
  }

  /** Cache → copy, before anybody may read them. Why it failed, or null; never rejects. */
  save(blockIds: Uint32Array): Promise<AnyConnectorError | null> {
    return this.#copy(this.#device, this.caches, blockIds)
  }

  /** Copy → cache, after they were read. Why it failed, or null; never rejects. */
  load(blockIds: Uint32Array): Promise<AnyConnectorError | null> {
    return this.#copy(this.caches, this.#device, blockIds)
  }

  /** Waits for copies under way. The region must be deregistered. */
  async close(): Promise<void> {
    await this.#last
    this.#memory.free()
  }

  #copy(
    from: KvCacheLayout,
    to: KvCacheLayout,
    blockIds: Uint32Array,
  ): Promise<AnyConnectorError | null> {
    const tokenCount = blockIds.length * from.blockTokens
    const copied = this.#last
      .then(() =>
        this.#kernels.relayout({ caches: from, blockIds }, { caches: to, blockIds }, tokenCount),
      )
      .then(
        () => null,
        (cause: unknown) => asConnectorError(cause, { operation: 'stage', peer: 'kernels' }),
      )
    this.#last = copied
    return copied
  }
}
