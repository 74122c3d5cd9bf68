/**
 * The queue of blocks that nobody holds, least recently released first: what is taken next, and, for
 * blocks that still have cached content, evicted next. A doubly linked list over two arrays, because a
 * prefix hit takes a block out of the middle.
 */
import { assert } from '@kvferry/connector-api'

const none = -1

export class FreeQueue {
  readonly #next: Int32Array
  readonly #previous: Int32Array
  readonly #isQueued: Uint8Array
  #head = none
  #tail = none
  #size = 0

  /** `stride`: the first in the queue are 0, stride, 2 × stride, … modulo the count, which it must not share a factor with. */
  constructor(blockCount: number, stride = 1) {
    this.#next = new Int32Array(blockCount).fill(none)
    this.#previous = new Int32Array(blockCount).fill(none)
    this.#isQueued = new Uint8Array(blockCount)
    for (let at = 0; at < blockCount; at++) this.append((at * stride) % blockCount)
  }

  get size(): number {
    return this.#size
  }

  has(block: number): boolean {
    return this.#isQueued[block] === 1
  }

  append(block: number): void {
    assert(!this.has(block), `block ${block} is released twice`)
    this.#isQueued[block] = 1
    this.#previous[block] = this.#tail
    this.#next[block] = none
    if (this.#tail === none) this.#head = block
    else this.#next[this.#tail] = block
    this.#tail = block
    this.#size++
  }

  /** The block that was released longest ago; the queue must not be empty. */
  shift(): number {
    const block = this.#head
    assert(block !== none, 'the free queue is empty')
    this.remove(block)
    return block
  }

  remove(block: number): void {
    assert(this.has(block), `block ${block} is not free`)
    const previous = this.#previous[block] as number
    const next = this.#next[block] as number
    if (previous === none) this.#head = next
    else this.#next[previous] = next
    if (next === none) this.#tail = previous
    else this.#previous[next] = previous
    this.#isQueued[block] = 0
    this.#size--
  }
}
