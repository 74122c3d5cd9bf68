/**
 * The scheduler half's clock. What vLLM asked is played here later than it was answered there, and an answer may
 * depend on the time (how long a reservation is relied on). So while a call is played that says when it was made, this
 * clock stands at that moment. Shim and host read the same clock of one machine. Owned by open-host.ts.
 */
import type { Clock, Instant, Timer } from '@kvferry/connector-api'

export class EngineClock implements Clock {
  readonly #clock: Clock
  #playedAt: Instant | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): Instant {
    return this.#playedAt ?? this.#clock.now()
  }

  after(delayMs: number, callback: () => void): Timer {
    return this.#clock.after(delayMs, callback)
  }

  /** `at`: when the shim made the call that `play` repeats; undefined: it doesn't matter. */
  during(at: number | undefined, play: () => void): void {
    this.#playedAt = at === undefined ? null : (at as Instant)
    try {
      play()
    } finally {
      this.#playedAt = null
    }
  }
}
