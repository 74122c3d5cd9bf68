/**
 * Who holds which block of KV memory. The scheduler is the only caller; no I/O, no time. A block is held
 * by requests (several may share one that they hit in the prefix cache), and each hold has a kind that
 * says why; a block nobody holds is free, and may still have cached content until it is taken again.
 */
import { assert } from '@kvferry/connector-api'
import { FreeQueue } from './free-queue.ts'
import type { BlockHash } from './block-hash.ts'
import type { BlockOrder } from './core-messages.ts'

/**
 * `owned`: a live request computes, loads or reads here. `leased`: the request ended and a peer may still
 * read. `quarantined`: the request ended and a transfer may still write.
 */
export type HoldKind = 'owned' | 'leased' | 'quarantined'

export interface BlockCounts {
  readonly total: number
  /** Without holder and without content. */
  readonly free: number
  /** Without holder, with content that a prefix hit may still use. */
  readonly cached: number
  readonly owned: number
  readonly leased: number
  readonly quarantined: number
}

const greatestCommonDivisor = (a: number, b: number): number =>
  b === 0 ? a : greatestCommonDivisor(b, a % b)

/** Far from 1 and from the count, so that blocks that are taken one after the other are no neighbours, nor their next ones. */
function scatteringStride(blockCount: number): number {
  let stride = Math.max(1, Math.round(blockCount * 0.618))
  while (greatestCommonDivisor(stride, blockCount) !== 1) stride += 1
  return stride
}

const holdKinds = ['owned', 'leased', 'quarantined'] as const

export class BlockPool {
  readonly blockCount: number
  readonly #free: FreeQueue
  readonly #holds: Record<HoldKind, Uint32Array>
  readonly #hashOf: (BlockHash | null)[]
  readonly #blockOf = new Map<BlockHash, number>()
  /** Evicted while held: its holders may be several, although it has no hash any more. */
  readonly #isDistrusted: Uint8Array

  constructor(blockCount: number, order: BlockOrder = 'sequential') {
    this.blockCount = blockCount
    const stride = order === 'scattered' ? scatteringStride(blockCount) : 1
    this.#free = new FreeQueue(blockCount, stride)
    this.#isDistrusted = new Uint8Array(blockCount)
    this.#hashOf = new Array<BlockHash | null>(blockCount).fill(null)
    this.#holds = {
      owned: new Uint32Array(blockCount),
      leased: new Uint32Array(blockCount),
      quarantined: new Uint32Array(blockCount),
    }
  }

  /** Blocks that `take` could give now: free and cached ones. */
  get availableCount(): number {
    return this.#free.size
  }

  /** `count` blocks without content, each with one `owned` hold; null when there are not enough. */
  take(count: number): number[] | null {
    if (count > this.#free.size) return null
    const blocks: number[] = []
    for (let i = 0; i < count; i++) {
      const block = this.#free.shift()
      this.#forget(block)
      this.#isDistrusted[block] = 0
      this.#addHold(block, 'owned')
      blocks.push(block)
    }
    return blocks
  }

  /** The blocks that hold the longest cached run of `hashes` from the front. Changes nothing. */
  findCached(hashes: readonly BlockHash[]): number[] {
    const found: number[] = []
    for (const hash of hashes) {
      const block = this.#blockOf.get(hash)
      if (block === undefined) break
      found.push(block)
    }
    return found
  }

  /** How many of these blocks are available now, and would not be after `share`. */
  countAvailable(blocks: readonly number[]): number {
    return blocks.filter((block) => this.#free.has(block)).length
  }

  /** Adds an `owned` hold to blocks found in the cache. */
  share(blocks: readonly number[]): void {
    for (const block of blocks) {
      assert(this.#hashOf[block] !== null, `block ${block} has no cached content to share`)
      if (this.#free.has(block)) this.#free.remove(block)
      this.#addHold(block, 'owned')
    }
  }

  /** Takes one hold away. Last blocks first, so that the tail of a prefix is evicted before its head. */
  release(blocks: readonly number[], kind: HoldKind): void {
    for (let index = blocks.length - 1; index >= 0; index--) {
      const block = blocks[index] as number
      this.#removeHold(block, kind)
      if (this.#holdCount(block) === 0) this.#free.append(block)
    }
  }

  /** Changes the reason of one hold. */
  convert(blocks: readonly number[], from: HoldKind, to: HoldKind): void {
    for (const block of blocks) {
      this.#removeHold(block, from)
      this.#addHold(block, to)
    }
  }

  /** Makes a full, valid block findable. Of two blocks with equal content the first stays findable. */
  cache(block: number, hash: BlockHash): void {
    assert(this.#holdCount(block) > 0, `block ${block} is cached without a holder`)
    if (this.#blockOf.has(hash) || this.#isDistrusted[block] === 1) return
    assert(this.#hashOf[block] === null, `block ${block} has other content`)
    this.#blockOf.set(hash, block)
    this.#hashOf[block] = hash
  }

  /** Makes blocks unfindable, because their content can't be trusted. */
  evict(blocks: readonly number[]): void {
    for (const block of blocks) {
      this.#forget(block)
      this.#isDistrusted[block] = 1
    }
  }

  counts(): BlockCounts {
    const counts = {
      total: this.blockCount,
      free: 0,
      cached: 0,
      owned: 0,
      leased: 0,
      quarantined: 0,
    }
    for (let block = 0; block < this.blockCount; block++) {
      // A block with several kinds of holds counts as the strictest one.
      if ((this.#holds.quarantined[block] as number) > 0) counts.quarantined++
      else if ((this.#holds.leased[block] as number) > 0) counts.leased++
      else if ((this.#holds.owned[block] as number) > 0) counts.owned++
      else if (this.#hashOf[block] !== null) counts.cached++
      else counts.free++
    }
    return counts
  }

  /**
   * For tests, after each step. `holders`: for each live hold, its kind and blocks.
   * @throws InvariantError when a hold is lost or invented, or a block is both held and free.
   */
  checkInvariants(holders: readonly { kind: HoldKind; blocks: readonly number[] }[]): void {
    for (const kind of holdKinds) {
      const expected = new Uint32Array(this.blockCount)
      for (const holder of holders) {
        if (holder.kind !== kind) continue
        for (const block of holder.blocks) expected[block] = (expected[block] as number) + 1
      }
      for (let block = 0; block < this.blockCount; block++) {
        assert(
          expected[block] === this.#holds[kind][block],
          `block ${block} has ${this.#holds[kind][block]} ${kind} holds, its requests ${expected[block]}`,
        )
      }
    }
    for (let block = 0; block < this.blockCount; block++) {
      const isHeld = this.#holdCount(block) > 0
      assert(isHeld !== this.#free.has(block), `block ${block} is held and free, or neither`)
      const hash = this.#hashOf[block] ?? null
      const isShareable = hash !== null || this.#isDistrusted[block] === 1
      assert(isShareable || this.#holdCount(block) <= 1, `block ${block} has several owners`)
      assert(hash === null || this.#blockOf.get(hash) === block, `block ${block} has a stale hash`)
    }
    const { total, free, cached, owned, leased, quarantined } = this.counts()
    assert(free + cached + owned + leased + quarantined === total, 'blocks are lost')
    assert(free + cached === this.#free.size, 'the free queue disagrees with the holds')
  }

  #holdCount(block: number): number {
    return holdKinds.reduce((sum, kind) => sum + (this.#holds[kind][block] as number), 0)
  }

  #addHold(block: number, kind: HoldKind): void {
    this.#holds[kind][block] = (this.#holds[kind][block] as number) + 1
  }

  #removeHold(block: number, kind: HoldKind): void {
    const count = this.#holds[kind][block] as number
    assert(count > 0, `block ${block} has no ${kind} hold to take away`)
    this.#holds[kind][block] = count - 1
  }

  #forget(block: number): void {
    const hash = this.#hashOf[block] ?? null
    if (hash === null) return
    this.#hashOf[block] = null
    this.#blockOf.delete(hash)
  }
}
