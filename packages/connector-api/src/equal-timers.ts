/**
 * Timers of one length over a single one of the clock. What is started for every request, and stopped long before
 * it is due, then costs no timer of the system: one is set while nothing is, and stays until it fires.
 */
import { instantPlus, type Clock, type Instant, type Timer } from './clock.ts'

class EqualTimer implements Timer {
  readonly dueAt: Instant
  readonly callback: () => void
  readonly #row: Set<EqualTimer>

  constructor(row: Set<EqualTimer>, dueAt: Instant, callback: () => void) {
    this.#row = row
    this.dueAt = dueAt
    this.callback = callback
    row.add(this)
  }

  stop(): void {
    this.#row.delete(this)
  }
}

export class EqualTimers {
  readonly #clock: Clock
  readonly #delayMs: number
  /** As they are due. */
  readonly #row = new Set<EqualTimer>()
  #timer: Timer | null = null

  constructor(clock: Clock, delayMs: number) {
    this.#clock = clock
    this.#delayMs = delayMs
  }

  /** As `Clock.after`. */
  start(callback: () => void): Timer {
    this.#timer ??= this.#clock.after(this.#delayMs, () => this.#fire())
    return new EqualTimer(this.#row, instantPlus(this.#clock.now(), this.#delayMs), callback)
  }

  /** Stops all. */
  close(): void {
    this.#row.clear()
    this.#timer?.stop()
    this.#timer = null
  }

  #fire(): void {
    this.#timer = null
    const now = this.#clock.now()
    try {
      for (const one of this.#row) {
        if (one.dueAt > now) return
        one.stop()
        one.callback()
      }
    } finally {
      const [next] = this.#row
      if (next !== undefined) {
        this.#timer ??= this.#clock.after(Math.max(0, next.dueAt - now), () => this.#fire())
      }
    }
  }
}
