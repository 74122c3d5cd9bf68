/**
 * Moves the bytes of loads: the post of a READ, and the work on its bytes once they have arrived. Owned by
 * load-table.ts, which decides when; it knows no lease and no state.
 */
import type { AnyConnectorError, TransferPost, WorkerComponents } from '@kvferry/connector-api'
import { asConnectorError, unsupported } from './failures.ts'
import type { LoadRecord } from './load-record.ts'
import { planRead, type LocalCache, type Relayout } from './read-plan.ts'
import { readPost } from './read-post.ts'

export class BlockReader {
  readonly #components: WorkerComponents
  readonly #cache: LocalCache
  readonly #works = new Set<Promise<AnyConnectorError | null>>()

  constructor(components: WorkerComponents, cache: LocalCache) {
    this.#components = components
    this.#cache = cache
  }

  get cache(): LocalCache {
    return this.#cache
  }

  /** @throws ConnectorError ERR_KV_LIMIT. */
  plan(
    record: LoadRecord,
    deadlineMs: number,
  ): { readonly post: TransferPost; readonly relayout: Relayout | null } {
    const plan = planRead(record.order, this.#cache, record.link!)
    return { post: readPost(record, plan, deadlineMs), relayout: plan.relayout }
  }

  /** Puts what has arrived in order; why it could not, or null. Never rejects. */
  async finish(relayout: Relayout): Promise<AnyConnectorError | null> {
    const work = this.#relayout(relayout)
    this.#works.add(work)
    const error = await work
    this.#works.delete(work)
    return error
  }

  /** Resolves when no kernel is at work in our blocks. */
  async settle(): Promise<void> {
    await Promise.all(this.#works)
  }

  async #relayout({ from, to, tokenCount }: Relayout): Promise<AnyConnectorError | null> {
    const { kernels } = this.#components
    if (kernels === undefined) return unsupported('kernels', 'the engine gave no kernels')
    try {
      await kernels.relayout(from, to, tokenCount)
      return null
    } catch (cause) {
      return asConnectorError(cause, { operation: 'relayout', peer: 'kernels' })
    }
  }
}
