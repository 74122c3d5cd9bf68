/**
 * Loads that were written and whose tickets are gone, for consumers that missed the news and ask. Bounded in
 * number and time; it needs no timer, for old ones are dropped when new ones come.
 */
import { instantPlus, type Clock, type Instant } from '@kvferry/connector-api'
import { xavierLimits } from './limits.ts'

export class WrittenLoads {
  readonly #clock: Clock
  /** By `lateKey`, oldest first: until when. */
  readonly #loads = new Map<string, Instant>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(key: string): void {
    const now = this.#clock.now()
    this.#loads.delete(key)
    this.#loads.set(key, instantPlus(now, xavierLimits.writtenRetentionMs))
    for (const [oldest, forgetAt] of this.#loads) {
      const isOver = now >= forgetAt || this.#loads.size > xavierLimits.writtenRetentionCountMax
      if (!isOver) return
      this.#loads.delete(oldest)
    }
  }

  has(key: string): boolean {
    const forgetAt = this.#loads.get(key)
    return forgetAt !== undefined && this.#clock.now() < forgetAt
  }
}
