/**
 * Reasons for an agent to go on polling that are no open leases or registrations. As a target it must poll
 * while a peer's transfer may need it (over TCP nothing moves otherwise): from a handshake until the peer
 * says that it is wired up, and while a transfer may be running that nothing is open for, until its end is
 * heard. Every hold has a deadline, for the peer may die first.
 */
import { limits, type Clock, type Timer } from '../index.ts'

export class PollHolds {
  readonly #clock: Clock
  readonly #onChange: () => void
  readonly #holds = new Map<string, Timer>()

  /** `onChange` runs after a hold began or ended. */
  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  get isHeld(): boolean {
    return this.#holds.size > 0
  }

  /** Starts anew when it is held already. Beyond the bound the oldest hold is given up. */
  start(reason: string, timeoutMs: number): void {
    this.#remove(reason)
    const [oldest] = this.#holds.keys()
    if (oldest !== undefined && this.#holds.size >= limits.requestCountMax) this.#remove(oldest)
    this.#holds.set(
      reason,
      this.#clock.after(timeoutMs, () => this.end(reason)),
    )
    this.#onChange()
  }

  /** Idempotent. */
  end(reason: string): void {
    if (this.#remove(reason)) this.#onChange()
  }

  clear(): void {
    for (const timer of this.#holds.values()) timer.stop()
    this.#holds.clear()
    this.#onChange()
  }

  #remove(reason: string): boolean {
    this.#holds.get(reason)?.stop()
    return this.#holds.delete(reason)
  }
}
