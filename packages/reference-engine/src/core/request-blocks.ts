/**
 * Blocks of one request in terms of its tokens: growing, sharing cached prefixes, making computed blocks
 * findable. Between the scheduler, which thinks in requests, and the pool, which knows only blocks.
 */
import type { BlockPool } from './block-pool.ts'
import { extendBlockHashes } from './block-hash.ts'
import type { EngineRequest } from './request-state.ts'

export class RequestBlocks {
  readonly blockTokens: number
  readonly #pool: BlockPool
  readonly #isPrefixCachingOn: boolean

  constructor(pool: BlockPool, blockTokens: number, isPrefixCachingOn: boolean) {
    this.#pool = pool
    this.blockTokens = blockTokens
    this.#isPrefixCachingOn = isPrefixCachingOn
  }

  blockCountFor(tokenCount: number): number {
    return Math.ceil(tokenCount / this.blockTokens)
  }

  /** Cached blocks that the request could share now; never all of its tokens, since the last is computed. */
  findCachedPrefix(request: EngineRequest): number[] {
    if (!this.#isPrefixCachingOn) return []
    extendBlockHashes(request.blockHashes, request.tokens, request.tokenCount, this.blockTokens)
    const usableCount = Math.floor((request.tokenCount - 1) / this.blockTokens)
    return this.#pool.findCached(request.blockHashes.slice(0, usableCount))
  }

  /** Blocks that the pool must still give before all of the request's present tokens have a place. */
  missingBlockCount(request: EngineRequest): number {
    return Math.max(0, this.blockCountFor(request.tokenCount) - request.blocks.length)
  }

  /** Whether the whole request fits beside what is reserved, if it shares `prefix`. */
  canAdmit(request: EngineRequest, prefix: readonly number[], reservedCount: number): boolean {
    const newCount = this.blockCountFor(request.tokenCount) - prefix.length
    const neededCount = newCount + this.#pool.countAvailable(prefix)
    return neededCount <= this.#pool.availableCount - reservedCount
  }

  share(request: EngineRequest, prefix: readonly number[]): void {
    this.#pool.share(prefix)
    request.blocks = [...prefix]
    request.cachedBlockCount = prefix.length
    request.computedTokenCount = prefix.length * this.blockTokens
    if (request.scheduledAtMs === null) request.localHitTokenCount = request.computedTokenCount
  }

  /** False when the pool has too few; then nothing changed. */
  growTo(request: EngineRequest, tokenCount: number): boolean {
    const missingCount = this.blockCountFor(tokenCount) - request.blocks.length
    if (missingCount <= 0) return true
    const taken = this.#pool.take(missingCount)
    if (taken === null) return false
    request.blocks.push(...taken)
    return true
  }

  /** Makes the full blocks among the computed tokens findable for other requests. */
  cacheComputed(request: EngineRequest): void {
    if (!this.#isPrefixCachingOn) return
    const fullCount = Math.floor(request.computedTokenCount / this.blockTokens)
    extendBlockHashes(
      request.blockHashes,
      request.tokens,
      request.computedTokenCount,
      this.blockTokens,
    )
    for (let index = request.cachedBlockCount; index < fullCount; index++) {
      this.#pool.cache(request.blocks[index] as number, request.blockHashes[index] as string)
    }
    request.cachedBlockCount = Math.max(request.cachedBlockCount, fullCount)
  }

  /** Takes all blocks from a request that will compute everything again. */
  reset(request: EngineRequest): void {
    this.#pool.release(request.blocks, 'owned')
    request.resetComputed()
  }
}
