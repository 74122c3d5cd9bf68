/**
 * The blocks of one engine: who owns each (several requests may share one that a prefix hit found), which
 * are free, and which free ones still hold a prefix. Throws on a second owner or a second release: that is
 * the engine's own mistake. What happens to a block's bytes when it comes free is its `mode`:
 *
 * - `poisoned`: overwritten at once, and the next to be given out. A late reader or writer is seen at once.
 * - `cached`: kept as they are for prefix hits, and given out last.
 */
import { assert } from '../../assert.ts'

export type FreeMode = 'poisoned' | 'cached'

export class BlockPool {
  readonly blockCount: number
  readonly mode: FreeMode
  readonly #onFree: (block: number) => void
  readonly #free: number[]
  readonly #owners: Set<string>[]
  /** Content that a free or owned block holds, by its place in a prompt. */
  readonly #cached = new Map<string, number>()
  readonly #contents: (string | null)[]

  /** `onFree` runs when a block's last owner has let go of it. */
  constructor(options: {
    readonly blockCount: number
    readonly mode: FreeMode
    readonly onFree: (block: number) => void
  }) {
    this.blockCount = options.blockCount
    this.mode = options.mode
    this.#onFree = options.onFree
    this.#free = Array.from({ length: options.blockCount }, (_, id) => id)
    this.#owners = this.#free.map(() => new Set())
    this.#contents = this.#free.map(() => null)
  }

  get freeCount(): number {
    return this.#free.length
  }

  /** Blocks of the longest cached prefix of a prompt, at most `countMax`. */
  lookup(prompt: number, countMax: number): number[] {
    const found: number[] = []
    while (found.length < countMax) {
      const block = this.#cached.get(keyOf(prompt, found.length))
      if (block === undefined) break
      found.push(block)
    }
    return found
  }

  /** Blocks that would have to be free besides `shared` to own `count` of them. */
  canTake(shared: readonly number[], count: number): boolean {
    const revived = shared.filter((block) => this.#owners[block]!.size === 0).length
    return count + revived <= this.#free.length
  }

  share(blocks: readonly number[], owner: string): void {
    for (const block of blocks) {
      const owners = this.#owners[block]!
      if (owners.size === 0) this.#free.splice(this.#free.indexOf(block), 1)
      owners.add(owner)
    }
  }

  /** From both ends in turn when poisoned, so that transfers are of scattered blocks. */
  take(count: number, owner: string): number[] {
    assert(count <= this.#free.length, `${owner} takes ${count} of ${this.#free.length} blocks`)
    return Array.from({ length: count }, (_, index) => {
      const fromEnd = this.mode === 'poisoned' && index % 2 === 0
      const block = fromEnd ? this.#free.pop()! : this.#free.shift()!
      assert(this.#owners[block]!.size === 0, `block ${block} is given to a second owner`)
      this.#forget(block)
      this.#owners[block]!.add(owner)
      return block
    })
  }

  release(blocks: readonly number[], owner: string): void {
    for (const block of blocks) {
      assert(this.#owners[block]!.delete(owner), `${owner} releases block ${block} twice`)
      if (this.#owners[block]!.size > 0) continue
      if (this.mode === 'poisoned') this.#forget(block)
      this.#free.push(block)
      this.#onFree(block)
    }
  }

  /** From now on `block` may serve others as the `index`-th block of `prompt`. */
  cache(prompt: number, index: number, block: number): void {
    const key = keyOf(prompt, index)
    if (this.mode === 'poisoned' || this.#cached.has(key)) return
    this.#forget(block)
    this.#cached.set(key, block)
    this.#contents[block] = key
  }

  /** What is wrong with the books, or null. */
  audit(): string | null {
    const free = new Set(this.#free)
    if (free.size !== this.#free.length) return 'a block is free twice'
    for (const [block, owners] of this.#owners.entries()) {
      if (free.has(block) !== (owners.size === 0))
        return `block ${block} is free and owned, or lost`
    }
    return null
  }

  #forget(block: number): void {
    const key = this.#contents[block]
    if (key === null || key === undefined) return
    this.#cached.delete(key)
    this.#contents[block] = null
  }
}

const keyOf = (prompt: number, index: number): string => `${prompt}:${index}`
