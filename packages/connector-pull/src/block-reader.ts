/**
 * Moves the bytes of loads: the post of a READ, and the work on its bytes once they have arrived. Owned by
 * load-table.ts, which decides when; it knows no lease and no state.
 */
import type {
  AnyConnectorError,
  KvKernels,
  TransferPost,
  WorkerComponents,
} from '@kvferry/connector-api'
import {
  asConnectorError,
  unsupported,
  type HostStaging,
  type Relayout,
} from '@kvferry/connector-api/protocol'
import type { FinishRead, LoadRecord } from './load-record.ts'
import { planRead, type LocalCache } from './read-plan.ts'
import { readPost } from './read-post.ts'

export class BlockReader {
  readonly #kernels: KvKernels | null
  readonly #cache: LocalCache
  readonly #staging: HostStaging | null
  readonly #works = new Set<Promise<AnyConnectorError | null>>()

  constructor({ kernels }: WorkerComponents, cache: LocalCache, staging: HostStaging | null) {
    this.#kernels = kernels ?? null
    this.#cache = cache
    this.#staging = staging
  }

  /** @throws ConnectorError ERR_KV_LIMIT. */
  plan(
    record: LoadRecord,
    deadlineMs: number,
  ): { readonly post: TransferPost; readonly finish: FinishRead | null } {
    const { order, link } = record
    const plan = planRead(order, this.#cache, link!)
    const post = readPost(record, plan, deadlineMs)
    if (plan.relayout === null && this.#staging === null) return { post, finish: null }
    const blockIds = order.localBlockIds[0]!
    return { post, finish: () => this.#track(this.#finish(plan.relayout, blockIds)) }
  }

  /** Resolves when no kernel is at work in our blocks. */
  async settle(): Promise<void> {
    await Promise.all(this.#works)
  }

  async #track(work: Promise<AnyConnectorError | null>): Promise<AnyConnectorError | null> {
    this.#works.add(work)
    const error = await work
    this.#works.delete(work)
    return error
  }

  /** First in order, then to its place. Never rejects. */
  async #finish(
    relayout: Relayout | null,
    blockIds: Uint32Array,
  ): Promise<AnyConnectorError | null> {
    const error = relayout === null ? null : await this.#relayout(relayout)
    if (error !== null || this.#staging === null) return error
    return this.#staging.load(blockIds)
  }

  async #relayout({ from, to, tokenCount }: Relayout): Promise<AnyConnectorError | null> {
    if (this.#kernels === null) return unsupported('kernels', 'the engine gave no kernels')
    try {
      await this.#kernels.relayout(from, to, tokenCount)
      return null
    } catch (cause) {
      return asConnectorError(cause, { operation: 'relayout', peer: 'kernels' })
    }
  }
}
