/**
 * The work of one step: writes the KV of its tokens, digests what its tokens depend on, checks it, and
 * chooses the next tokens. Takes the place of a model's forward. Kernels run off the step thread; between
 * `run` and its end no block of a scheduled request may change hands.
 */
import type { KvCacheLayout, Logger } from '@kvferry/connector-api'
import { addDigests, emptyDigestSum, nextToken, type DigestSum } from './kv-content.ts'
import { planReads, type ReadPlan } from './read-plan.ts'
import type { EngineRequest } from './request-state.ts'
import type { ScheduledChunk } from './scheduler.ts'
import type { ContentKernels } from './sharded-kernels.ts'
import {
  countSlots,
  findMismatches,
  rememberExpected,
  toSeeds,
  toSlots,
  unknownParts,
  type SlotRange,
} from './slot-ranges.ts'

export interface ForwardCounters {
  readonly blocksVerified: number
  readonly mismatchedBlocks: number
}

export interface ForwardResult {
  /** For each chunk its next token, or null where the request has tokens left to compute. */
  readonly sampled: readonly (number | null)[]
  /** Blocks whose bytes were not what the tokens before them demand. */
  readonly wrongBlocks: readonly number[]
  /** The requests that read them: their next token would follow from wrong bytes. */
  readonly corrupted: ReadonlySet<EngineRequest>
}

/** Digests of ranges, one after the other, and a cursor into them. */
interface Reading {
  readonly digests: BigUint64Array
  slot: number
}

interface WrongBlocks {
  readonly blocks: number[]
  readonly requests: Set<EngineRequest>
}

export class Forward {
  readonly #kernels: ContentKernels
  readonly #caches: KvCacheLayout
  readonly #logger: Logger
  #blocksVerified = 0
  #mismatchedBlocks = 0

  constructor(parts: { kernels: ContentKernels; caches: KvCacheLayout; logger: Logger }) {
    this.#kernels = parts.kernels
    this.#caches = parts.caches
    this.#logger = parts.logger
  }

  counters(): ForwardCounters {
    return {
      blocksVerified: this.#blocksVerified,
      mismatchedBlocks: this.#mismatchedBlocks,
    }
  }

  async run(chunks: readonly ScheduledChunk[]): Promise<ForwardResult> {
    const plans = chunks.map((chunk) => planReads(chunk))
    const loadedRanges = plans.flatMap(({ loaded }) => (loaded === null ? [] : [loaded]))
    const writtenRanges = plans.flatMap(({ written }) => written)
    const unknown = plans.flatMap(({ chunk, loaded, written }) => [
      ...(loaded === null ? [] : unknownParts(loaded, 0, 0)),
      ...written.flatMap((range) => unknownParts(range, chunk.start, chunk.end)),
    ])
    // Loaded bytes are read before anything is written, or the recomputed token would hide its old bytes.
    const [loadedDigests, expected] = await Promise.all([
      this.#digest(loadedRanges),
      unknown.length === 0 ? null : this.#kernels.expect(this.#caches, toSeeds(unknown)),
    ])
    if (expected !== null) rememberExpected(unknown, expected)
    const slots = toSlots(chunks, this.#caches.blockTokens)
    rememberExpected(chunks, await this.#kernels.fill(this.#caches, slots, toSeeds(chunks)))
    const writtenDigests = await this.#digest(writtenRanges)
    return this.#conclude(plans, loadedDigests, writtenDigests)
  }

  #digest(ranges: readonly SlotRange[]): Promise<BigUint64Array> {
    if (countSlots(ranges) === 0) return Promise.resolve(new BigUint64Array(0))
    return this.#kernels.digest(this.#caches, toSlots(ranges, this.#caches.blockTokens))
  }

  #conclude(
    plans: readonly ReadPlan[],
    loadedDigests: BigUint64Array,
    writtenDigests: BigUint64Array,
  ): ForwardResult {
    const loadedReading: Reading = { digests: loadedDigests, slot: 0 }
    const writtenReading: Reading = { digests: writtenDigests, slot: 0 }
    const wrong: WrongBlocks = { blocks: [], requests: new Set() }
    const sampled = plans.map((plan) => {
      const { chunk, loaded } = plan
      const { request } = chunk
      let sum = plan.isPromptSum ? request.digestSum : emptyDigestSum
      if (loaded !== null) {
        const first = loadedReading.slot
        const end = plan.isPromptSum ? first + loaded.end - loaded.start : first
        sum = addDigests(sum, loadedDigests, first, end)
        this.#check(loaded, loadedReading, wrong)
        this.#countVerified(request)
      }
      for (const range of plan.written) {
        const first = writtenReading.slot
        sum = addDigests(sum, writtenDigests, first, first + range.end - range.start)
        this.#check(range, writtenReading, wrong)
      }
      if (plan.isPromptSum) this.#keepPromptSum(request, chunk, sum)
      return plan.isSampled ? nextToken(request.seeds[chunk.end - 1] as bigint, sum) : null
    })
    return { sampled, wrongBlocks: wrong.blocks, corrupted: wrong.requests }
  }

  #keepPromptSum(request: EngineRequest, chunk: ScheduledChunk, sum: DigestSum): void {
    request.digestSum = sum
    request.digestedCount = Math.min(chunk.end, request.promptTokenCount)
  }

  #countVerified(request: EngineRequest): void {
    const verifiedCount = request.verification.blocksLoaded - request.verification.blocksVerified
    request.verification.blocksVerified += verifiedCount
    request.unverifiedLoad = null
    this.#blocksVerified += verifiedCount
  }

  /** Compares one range with what it must be, and moves the cursor past it. */
  #check(range: SlotRange, reading: Reading, wrong: WrongBlocks): void {
    const { request } = range
    const { blockTokens } = this.#caches
    for (const index of findMismatches(range, reading.digests, reading.slot, blockTokens)) {
      const block = request.blocks[index] as number
      wrong.blocks.push(block)
      wrong.requests.add(request)
      if (request.mismatchedBlockIndexes.has(index)) continue
      request.mismatchedBlockIndexes.add(index)
      this.#mismatchedBlocks++
      this.#logger.error('KV bytes differ from what the tokens demand', {
        requestId: request.requestId,
        blockIndex: index,
        blockId: block,
      })
    }
    reading.slot += range.end - range.start
  }
}
