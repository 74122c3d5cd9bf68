/**
 * The Clock port over the system's monotonic clock. Readings of all processes of one machine share an
 * origin, so the harness may compare times taken in different processes; protocol code must not.
 * Owned by whoever assembles an engine; never used in a simulation.
 */
import type { Clock, Instant, Timer } from '@kvferry/connector-api'

/** Longest delay that setTimeout takes; longer waits are made of several. */
const timeoutMsMax = 2_147_483_647

const now = (): Instant => (Number(process.hrtime.bigint()) / 1e6) as Instant

/** @throws RangeError from `after` when the delay is not a finite number. */
export function createSystemClock(): Clock {
  return {
    now,
    after(delayMs: number, callback: () => void): Timer {
      if (!Number.isFinite(delayMs)) throw new RangeError(`delayMs must be finite, got ${delayMs}`)
      return delayMs > 0 ? new SystemTimer(delayMs, callback) : new NextTurn(callback)
    },
  }
}

/** Without a delay: after what is due in this turn. A timer of Node would wait for a millisecond at least. */
class NextTurn implements Timer {
  readonly #immediate: NodeJS.Immediate

  constructor(callback: () => void) {
    this.#immediate = setImmediate(callback)
  }

  stop(): void {
    clearImmediate(this.#immediate)
  }
}

/** Hooks start several in a step: one object each, and one reading of the clock. */
class SystemTimer implements Timer {
  readonly #dueAt: number
  readonly #callback: () => void
  #timeout: NodeJS.Timeout

  constructor(delayMs: number, callback: () => void) {
    this.#dueAt = now() + delayMs
    this.#callback = callback
    this.#timeout = this.#arm(delayMs)
  }

  stop(): void {
    clearTimeout(this.#timeout)
  }

  #arm(remainingMs: number): NodeJS.Timeout {
    const delayMs = Math.min(Math.max(0, Math.ceil(remainingMs)), timeoutMsMax)
    return setTimeout(SystemTimer.#onTimeout, delayMs, this)
  }

  /**
   * Node's timers count whole milliseconds of the loop's own time and may fire early by up to one, which would
   * break "at or after": what is left is waited for again.
   */
  static readonly #onTimeout = (timer: SystemTimer): void => {
    const remainingMs = timer.#dueAt - now()
    if (remainingMs > 0) timer.#timeout = timer.#arm(remainingMs)
    else timer.#callback()
  }
}
