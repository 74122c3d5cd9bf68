/**
 * The consumer's own work on bytes that have arrived: blocks of another size are put in order. Owned by
 * worker.ts; knows no state.
 */
import type { AnyConnectorError, KvCacheLayout, KvKernels } from '../index.ts'
import { asConnectorError, relayoutOf, unsupported, type PeerFacts } from '../protocol/index.ts'
import { blocksOf, firstTokenOf, type LoadOrder } from './load-record.ts'

export class BlockFinisher {
  readonly caches: KvCacheLayout
  readonly #kernels: KvKernels | null
  readonly #works = new Set<Promise<unknown>>()

  constructor(caches: KvCacheLayout, kernels: KvKernels | undefined) {
    this.caches = caches
    this.#kernels = kernels ?? null
  }

  /** Why it failed, or null; never rejects. `source`: of the producer. */
  async finish(order: LoadOrder, source: PeerFacts): Promise<AnyConnectorError | null> {
    const relayout = relayoutOf(this.caches, source, {
      blockIds: blocksOf(order),
      firstToken: firstTokenOf(order, this.caches.blockTokens),
      end: order.tokenEnd,
    })
    if (relayout === null) return null
    if (this.#kernels === null) return unsupported('kernels', 'the engine gave no kernels')
    const work = this.#kernels.relayout(relayout.from, relayout.to, relayout.tokenCount)
    this.#works.add(work)
    try {
      await work
      return null
    } catch (cause) {
      return asConnectorError(cause, { operation: 'relayout', peer: 'kernels' })
    } finally {
      this.#works.delete(work)
    }
  }

  /** Resolves when no kernel is at work in our blocks. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#works)
  }
}
