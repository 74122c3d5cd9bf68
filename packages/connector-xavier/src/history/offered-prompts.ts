/**
 * Which prompts may have anything in the history: those whose first block was offered to it. Keys form a chain,
 * so a prompt whose first block never was has nothing there, and its request need not wait for a "no". A
 * bounded set, the one that was not offered for longest forgotten first: what is forgotten is computed.
 */
import { blockKeySizeBytes, type BlockKeys } from '@kvferry/connector-api'

export class OfferedPrompts {
  readonly #countMax: number
  /** Oldest first. */
  readonly #firstKeys = new Set<string>()

  constructor(countMax: number) {
    this.#countMax = countMax
  }

  add(keys: BlockKeys): void {
    if (keys.length === 0) return
    const key = firstOf(keys)
    this.#firstKeys.delete(key)
    this.#firstKeys.add(key)
    if (this.#firstKeys.size <= this.#countMax) return
    for (const oldest of this.#firstKeys) {
      this.#firstKeys.delete(oldest)
      return
    }
  }

  has(keys: BlockKeys): boolean {
    return keys.length > 0 && this.#firstKeys.has(firstOf(keys))
  }

  clear(): void {
    this.#firstKeys.clear()
  }
}

const firstOf = (keys: BlockKeys): string =>
  Buffer.from(keys.subarray(0, blockKeySizeBytes)).toString('latin1')
