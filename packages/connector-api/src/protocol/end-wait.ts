/**
 * Waits that a deadline ends, for closing: for work that peers or the agent have under way. No timer is
 * left, whichever comes first.
 */
import type { Clock, Timer } from '../index.ts'

/** Waits for a condition that events bring about. */
export class EndWait {
  readonly #clock: Clock
  readonly #hasEnded: () => boolean
  #wake: (() => void) | null = null

  constructor(clock: Clock, hasEnded: () => boolean) {
    this.#clock = clock
    this.#hasEnded = hasEnded
  }

  /** Resolves when it has ended, or `deadlineMs` from now. Called once. */
  async wait(deadlineMs: number): Promise<void> {
    if (this.#hasEnded()) return
    const ended = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    await within(this.#clock, deadlineMs, ended)
    this.#wake = null
  }

  /** Something ended. */
  check(): void {
    if (this.#wake !== null && this.#hasEnded()) this.#wake()
  }
}

/** True when `work` settled before the deadline. Never rejects; what `work` does later is its own. */
export async function within(
  clock: Clock,
  deadlineMs: number,
  work: Promise<unknown>,
): Promise<boolean> {
  let timer: Timer | null = null
  const late = new Promise<false>((resolve) => {
    timer = clock.after(deadlineMs, () => resolve(false))
  })
  const ended = work.then(
    () => true as const,
    () => true as const,
  )
  const isInTime = await Promise.race([ended, late])
  ;(timer as Timer | null)?.stop()
  return isInTime
}
