/**
 * Probation: the keys of blocks that finished requests had and that are not stored, most recently seen
 * first. Keys only, no KV, and bounded: what has come once may be kept when it comes again, if that is
 * soon enough.
 */
import type { Random } from '@kvferry/connector-api'
import { KeyTable, noEntry } from './key-table.ts'
import type { KeyWords } from './key-words.ts'
import { LinkedOrder } from './linked-order.ts'

export class Probation {
  readonly #table: KeyTable
  readonly #order: LinkedOrder

  constructor(capacity: number, random: Random) {
    this.#table = new KeyTable(capacity, random)
    this.#order = new LinkedOrder(capacity)
  }

  get count(): number {
    return this.#table.count
  }

  has(words: KeyWords, index: number): boolean {
    return this.#table.find(words, index) !== noEntry
  }

  /** Makes the key the newest; the oldest is forgotten when there is no room. */
  note(words: KeyWords, index: number): void {
    if (this.#table.capacity === 0) return
    const known = this.#table.find(words, index)
    if (known !== noEntry) return this.#order.moveToNewest(known)
    if (this.#table.count === this.#table.capacity) this.#forget(this.#order.oldest())
    this.#order.append(this.#table.insert(words, index))
  }

  delete(words: KeyWords, index: number): void {
    const id = this.#table.find(words, index)
    if (id !== noEntry) this.#forget(id)
  }

  /** Keys from oldest to newest: for tests. */
  keys(): KeyWords[] {
    const keys: KeyWords[] = []
    for (let id = this.#order.oldest(); id !== noEntry; id = this.#order.newer(id)) {
      keys.push(this.#table.keyOf(id))
    }
    return keys
  }

  #forget(id: number): void {
    this.#order.remove(id)
    this.#table.delete(id)
  }
}
