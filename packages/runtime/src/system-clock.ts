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
      const dueAt = now() + delayMs
      let timeout: NodeJS.Timeout
      // Node's timers count whole milliseconds of the loop's own time and may fire early by up to one,
      // which would break "at or after": what is left is waited for again.
      const onTimeout = (): void => {
        if (now() < dueAt) arm()
        else callback()
      }
      const arm = (): void => {
        const remainingMs = Math.max(0, Math.ceil(dueAt - now()))
        timeout = setTimeout(onTimeout, Math.min(remainingMs, timeoutMsMax))
      }
      arm()
      return { stop: () => clearTimeout(timeout) }
    },
  }
}
