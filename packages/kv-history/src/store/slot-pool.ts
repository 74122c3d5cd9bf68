/** The slots of one tier: which are free. The last given back is taken first; its memory is warm. */
import { assert } from '@kvferry/connector-api'

export const noSlot = -1

export class SlotPool {
  readonly capacity: number
  readonly #free: Uint32Array
  #freeCount = 0
  #fresh = 0

  constructor(capacity: number) {
    this.capacity = capacity
    this.#free = new Uint32Array(capacity)
  }

  get freeCount(): number {
    return this.capacity - this.#fresh + this.#freeCount
  }

  /** `noSlot` when all are taken. */
  take(): number {
    if (this.#freeCount > 0) return this.#free[--this.#freeCount]!
    return this.#fresh < this.capacity ? this.#fresh++ : noSlot
  }

  give(slot: number): void {
    assert(this.#freeCount < this.#fresh, 'a slot is given back twice')
    this.#free[this.#freeCount++] = slot
  }
}
