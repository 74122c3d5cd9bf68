/**
 * Copies that belong together, and the knowledge which have not ended: memory that a copy may still touch
 * is neither reused nor freed (architecture §6).
 */
import type { Clock } from '@kvferry/connector-api'
import type { BlockCopies, BlockCopy } from './block-copies.ts'

export class TrackedCopies {
  readonly #copies: BlockCopies
  readonly #clock: Clock
  readonly #deadlineMs: number
  readonly #onOverdue: (copy: BlockCopy) => void
  #runningCount = 0
  readonly #overdue = new Set<BlockCopy>()
  readonly #whenIdle = new Set<() => void>()

  constructor(
    copies: BlockCopies,
    clock: Clock,
    deadlineMs: number,
    onOverdue: (copy: BlockCopy) => void,
  ) {
    this.#copies = copies
    this.#clock = clock
    this.#deadlineMs = deadlineMs
    this.#onOverdue = onOverdue
  }

  /** Slots of both tiers that copies past their deadline may touch. */
  get overdueSlotCount(): number {
    let count = 0
    for (const { from, to, fromBlocks } of this.#overdue) {
      count += ((from === 'engine' ? 0 : 1) + (to === 'engine' ? 0 : 1)) * fromBlocks.length
    }
    return count
  }

  /** All at once. Resolves when all have ended well; rejects with the first error when all have ended. */
  together(copies: readonly BlockCopy[]): Promise<void> {
    return this.#track(async () => {
      const results = await Promise.allSettled(copies.map((copy) => this.#copy(copy)))
      const failed = results.find((result) => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    })
  }

  /** One after another, up to the first that fails. */
  inTurn(copies: readonly BlockCopy[]): Promise<void> {
    return this.#track(async () => {
      for (const copy of copies) await this.#copy(copy)
    })
  }

  /** True once nothing is running; false when that has not come about within `limitMs`. */
  async drain(limitMs: number): Promise<boolean> {
    if (this.#runningCount === 0) return true
    return new Promise((resolve) => {
      const wake = (): void => {
        timer.stop()
        this.#whenIdle.delete(wake)
        resolve(this.#runningCount === 0)
      }
      const timer = this.#clock.after(limitMs, wake)
      this.#whenIdle.add(wake)
    })
  }

  async #track(work: () => Promise<void>): Promise<void> {
    this.#runningCount += 1
    try {
      await work()
    } finally {
      this.#runningCount -= 1
      if (this.#runningCount === 0) for (const wake of [...this.#whenIdle]) wake()
    }
  }

  async #copy(copy: BlockCopy): Promise<void> {
    const timer = this.#clock.after(this.#deadlineMs, () => {
      this.#overdue.add(copy)
      this.#onOverdue(copy)
    })
    try {
      await this.#copies.copy(copy)
    } finally {
      timer.stop()
      this.#overdue.delete(copy)
    }
  }
}
