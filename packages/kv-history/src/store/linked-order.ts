/**
 * An order of ids, oldest to newest: a doubly linked list in one typed array. Every operation is a few
 * reads and writes. Node 0 is the list's own end, node `id + 1` an id's, so that zeroed memory is an empty
 * list and nothing is written before it is used. Who is in the list is the caller's to know.
 */
import { noEntry } from './key-table.ts'

export class LinkedOrder {
  /** For node n: at 2n the next older, at 2n + 1 the next newer node. */
  readonly #links: Uint32Array

  constructor(capacity: number) {
    this.#links = new Uint32Array(2 * (capacity + 1))
  }

  /** `noEntry` when empty. */
  oldest(): number {
    return this.#links[1]! - 1
  }

  /** `noEntry` after the newest. */
  newer(id: number): number {
    return this.#links[2 * (id + 1) + 1]! - 1
  }

  /** `noEntry` before the oldest. */
  older(id: number): number {
    return this.#links[2 * (id + 1)]! - 1
  }

  append(id: number): void {
    this.#link(id + 1, this.#links[0]!)
  }

  /** Puts `id` just newer than `older`; `noEntry`: makes it the oldest. */
  insertAfter(older: number, id: number): void {
    this.#link(id + 1, older === noEntry ? 0 : older + 1)
  }

  remove(id: number): void {
    const links = this.#links
    const node = 2 * (id + 1)
    links[2 * links[node]! + 1] = links[node + 1]!
    links[2 * links[node + 1]!] = links[node]!
  }

  moveToNewest(id: number): void {
    if (this.#links[0] === id + 1) return
    this.remove(id)
    this.append(id)
  }

  #link(node: number, older: number): void {
    const links = this.#links
    const newer = links[2 * older + 1]!
    links[2 * node] = older
    links[2 * node + 1] = newer
    links[2 * older + 1] = node
    links[2 * newer] = node
  }
}
