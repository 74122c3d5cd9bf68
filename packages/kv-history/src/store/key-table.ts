/**
 * Keys to small ids: open addressing over typed arrays, of a fixed capacity. Memory of the arrays is only
 * touched as far as it is used, so an empty table of a million keys costs next to nothing, and a full one
 * 32 B a key plus 8 to 16 B of slots. Ids are reused, the last freed first.
 */
import { assert, type Random } from '@kvferry/connector-api'
import { keyWordCount, type KeyWords } from './key-words.ts'

export const noEntry = -1

export class KeyTable {
  readonly capacity: number
  #count = 0
  readonly #keys: Uint32Array
  /** 1 more than the id that hangs here; 0: nothing does. Linear probing, at most half full. */
  readonly #slots: Int32Array
  readonly #shift: number
  readonly #freeIds: Uint32Array
  #freeCount = 0
  #freshId = 0
  /** Odd factors, secret: whoever chooses tokens can't choose keys that meet in one slot. */
  readonly #factors: readonly [number, number]

  constructor(capacity: number, random: Random) {
    this.capacity = capacity
    const slotBits = Math.max(1, Math.ceil(Math.log2(Math.max(1, capacity))) + 1)
    this.#keys = new Uint32Array(capacity * keyWordCount)
    this.#slots = new Int32Array(2 ** slotBits)
    this.#shift = 32 - slotBits
    this.#freeIds = new Uint32Array(capacity)
    const seed = new DataView(Uint8Array.from(random.bytes(8)).buffer)
    this.#factors = [seed.getInt32(0) | 1, seed.getInt32(4) | 1]
  }

  get count(): number {
    return this.#count
  }

  /** The id of key `index` of `words`, or `noEntry`. */
  find(words: KeyWords, index: number): number {
    const at = index * keyWordCount
    for (let slot = this.#home(words, at); ; slot = this.#after(slot)) {
      const id = this.#slots[slot]! - 1
      if (id === noEntry || this.#equals(id, words, at)) return id
    }
  }

  /** Adds a key that isn't there. @returns its new id. */
  insert(words: KeyWords, index: number): number {
    assert(this.#count < this.capacity, 'the key table is full')
    const at = index * keyWordCount
    let slot = this.#home(words, at)
    while (this.#slots[slot] !== 0) slot = this.#after(slot)
    const id = this.#freeCount > 0 ? this.#freeIds[--this.#freeCount]! : this.#freshId++
    this.#keys.set(words.subarray(at, at + keyWordCount), id * keyWordCount)
    this.#slots[slot] = id + 1
    this.#count += 1
    return id
  }

  /** Frees `id` and closes the gap, so that no search ends there too early. */
  delete(id: number): void {
    let gap = this.#home(this.#keys, id * keyWordCount)
    while (this.#slots[gap] !== id + 1) {
      assert(this.#slots[gap] !== 0, 'the key is not in the table')
      gap = this.#after(gap)
    }
    for (let slot = this.#after(gap); this.#slots[slot] !== 0; slot = this.#after(slot)) {
      const home = this.#home(this.#keys, (this.#slots[slot]! - 1) * keyWordCount)
      // It may move back unless its home lies between the gap (not included) and where it is.
      const mask = this.#slots.length - 1
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue
      this.#slots[gap] = this.#slots[slot]!
      gap = slot
    }
    this.#slots[gap] = 0
    this.#freeIds[this.#freeCount++] = id
    this.#count -= 1
  }

  /** The key of an id, as words of its own. */
  keyOf(id: number): KeyWords {
    return this.#keys.slice(id * keyWordCount, (id + 1) * keyWordCount)
  }

  #home(words: Uint32Array, at: number): number {
    const [a, b] = this.#factors
    return ((Math.imul(words[at]!, a) + Math.imul(words[at + 1]!, b)) | 0) >>> this.#shift
  }

  #after(slot: number): number {
    return (slot + 1) & (this.#slots.length - 1)
  }

  #equals(id: number, words: KeyWords, at: number): boolean {
    const own = id * keyWordCount
    for (let word = 0; word < keyWordCount; word += 1) {
      if (this.#keys[own + word] !== words[at + word]) return false
    }
    return true
  }
}
