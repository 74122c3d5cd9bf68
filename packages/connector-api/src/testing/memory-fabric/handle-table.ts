/**
 * A bounded table whose handles carry index and generation, so that a handle of something released is
 * refused instead of naming what took its place. Generations start at a random number: handles of one
 * agent mean nothing to another.
 */
import { ConnectorError } from '../../errors.ts'
import type { Random } from '../../random.ts'

const indexSpan = 2 ** 17
const generationSpan = 2 ** 32

export class HandleTable<T, H extends number> {
  readonly #limit: string
  readonly #max: number
  readonly #entries: { generation: number; value: T | undefined }[] = []
  readonly #free: number[] = []
  readonly #firstGeneration: number
  #size = 0

  constructor(options: { limit: string; max: number; random: Random }) {
    this.#limit = options.limit
    this.#max = Math.min(options.max, indexSpan)
    this.#firstGeneration = 1 + Math.floor(options.random.uniform() * generationSpan)
  }

  get size(): number {
    return this.#size
  }

  /** @throws ConnectorError ERR_KV_LIMIT when full. */
  add(value: T): H {
    if (this.#size >= this.#max) {
      const details = { limit: this.#limit, value: this.#size + 1, max: this.#max }
      throw new ConnectorError('ERR_KV_LIMIT', `no room: ${this.#limit}`, details)
    }
    const index = this.#free.pop() ?? this.#entries.length
    const entry = (this.#entries[index] ??= { generation: this.#firstGeneration, value: undefined })
    entry.value = value
    this.#size += 1
    return (entry.generation * indexSpan + index) as H
  }

  /** Undefined for a handle that is stale, foreign or no handle at all. */
  find(handle: H): T | undefined {
    const entry = this.#entries[handle % indexSpan]
    return entry?.generation === Math.floor(handle / indexSpan) ? entry.value : undefined
  }

  /** @throws RangeError when `find` finds nothing. */
  get(handle: H, what: string): T {
    const value = this.find(handle)
    if (value === undefined) throw new RangeError(`${what}: stale or foreign handle ${handle}`)
    return value
  }

  /** True for a handle that this table gave out and has taken back since. */
  isStale(handle: H): boolean {
    const entry = this.#entries[handle % indexSpan]
    const generation = Math.floor(handle / indexSpan)
    return (
      entry !== undefined && generation >= this.#firstGeneration && generation < entry.generation
    )
  }

  remove(handle: H): void {
    if (this.find(handle) === undefined) return
    const index = handle % indexSpan
    const entry = this.#entries[index]!
    entry.value = undefined
    entry.generation += 1
    this.#free.push(index)
    this.#size -= 1
  }

  *values(): Generator<T> {
    for (const { value } of this.#entries) if (value !== undefined) yield value
  }

  *handles(): Generator<H> {
    for (const [index, { generation, value }] of this.#entries.entries()) {
      if (value !== undefined) yield (generation * indexSpan + index) as H
    }
  }
}
