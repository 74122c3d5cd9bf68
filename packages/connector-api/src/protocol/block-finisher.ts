/**
 * The consumer's own work on the bytes of a load once all have arrived: what came in blocks of another size,
 * or with tokens and heads in the other order, is put in order, what came into a copy in host memory goes to its place. Knows no state.
 */
import type { AnyConnectorError, KvCacheLayout, KvKernels } from '../index.ts'
import { asConnectorError, unsupported } from './failures.ts'
import type { HostStaging } from './host-staging.ts'
import { relayoutOf, type Relayout, type SourceOrder } from './transfer-plan.ts'

const noKernels =
  'other block sizes or layouts need kernels, and the engine gave none; make both engines’ equal'

/** Blocks of one load; they begin with token `firstToken` of the prompt and hold its tokens up to `end`. */
export interface LoadedRun {
  readonly blockIds: Uint32Array
  readonly firstToken: number
  readonly end: number
}

/** Blocks of `blockTokens` that end with token `end`: what was hit locally is missing in front, in whole blocks. */
export function loadedRun(blockIds: Uint32Array, end: number, blockTokens: number): LoadedRun {
  const firstToken = (Math.ceil(end / blockTokens) - blockIds.length) * blockTokens
  return { blockIds, firstToken, end }
}

export class BlockFinisher {
  /** What transfers go into. */
  readonly caches: KvCacheLayout
  readonly #kernels: KvKernels | null
  readonly #staging: HostStaging | null
  readonly #works = new Set<Promise<unknown>>()

  /** `staging`: `caches` are its copy. */
  constructor(
    caches: KvCacheLayout,
    kernels: KvKernels | undefined,
    staging: HostStaging | null = null,
  ) {
    this.caches = caches
    this.#kernels = kernels ?? null
    this.#staging = staging
  }

  /**
   * Why it failed, or null; never rejects. No promise where nothing is to be done, as in most loads: their end
   * need not wait for a turn. `source`: of the producer.
   */
  finish(run: LoadedRun, source: SourceOrder): Promise<AnyConnectorError | null> | null {
    const relayout = relayoutOf(this.caches, source, run)
    if (relayout === null && this.#staging === null) return null
    const work = this.#perform(relayout, run.blockIds)
    this.#works.add(work)
    return work.finally(() => this.#works.delete(work))
  }

  /** Resolves when no kernel is at work in our blocks. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#works)
  }

  /** First in order, then to its place. */
  async #perform(
    relayout: Relayout | null,
    blockIds: Uint32Array,
  ): Promise<AnyConnectorError | null> {
    const error = relayout === null ? null : await this.#relayout(relayout)
    if (error !== null || this.#staging === null) return error
    return this.#staging.load(blockIds)
  }

  async #relayout({ from, to, tokenCount }: Relayout): Promise<AnyConnectorError | null> {
    if (this.#kernels === null) return unsupported('kernels', noKernels)
    try {
      await this.#kernels.relayout(from, to, tokenCount)
      return null
    } catch (cause) {
      return asConnectorError(cause, { operation: 'relayout', peer: 'kernels' })
    }
  }
}
