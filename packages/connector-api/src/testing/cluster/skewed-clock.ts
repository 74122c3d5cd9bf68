/**
 * One machine's view of the world's time: another origin and another rate. Deadlines that cross processes
 * as clock readings, or without a margin for the rate, are found out.
 */
import type { Clock, Instant } from '../../clock.ts'

export interface ClockSkew {
  readonly offsetMs: number
  /** Of its seconds per real one, for example 1.001. */
  readonly rate: number
}

export function createSkewedClock(world: Clock, { offsetMs, rate }: ClockSkew): Clock {
  return {
    now: () => (offsetMs + world.now() * rate) as Instant,
    after: (delayMs, callback) => world.after(delayMs / rate, callback),
  }
}
