/**
 * The only way protocol code learns the time or waits. Production uses the system's monotonic clock
 * (`runtime`), simulation a virtual one, so a lease test takes microseconds. Readings never cross a
 * process: deadlines travel as remaining time.
 */
declare const instant: unique symbol
/** Monotonic milliseconds (fractional) since an arbitrary origin of this process's clock. */
export type Instant = number & { readonly [instant]: true }

export interface Timer {
  /** Idempotent. After it returns the callback won't run. */
  stop(): void
}

export interface Clock {
  now(): Instant
  /** Runs `callback` once, at or after `delayMs` from now; never synchronously. */
  after(delayMs: number, callback: () => void): Timer
}

export const instantPlus = (at: Instant, durationMs: number): Instant =>
  (at + durationMs) as Instant
