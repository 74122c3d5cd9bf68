/**
 * Waits for the end of a modelled forward. Node's timers count whole milliseconds of their loop's own time and are
 * one late on average, which every answer would pay: at the end of its prefill, and with each token. So a timer
 * wakes before the end, and for the rest the core's thread sleeps, as an engine's does that waits for its
 * device. What arrives meanwhile is heard right after it, in time for what the step's end gathers.
 */
import type { Clock } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import { turnOfEventLoop } from './event-loop.ts'

/** Keeps this thread from doing anything for so long, or a little less. */
export type PauseThread = (durationMs: number) => void

/** Nobody writes it, so nothing but the time ends a wait for it. */
const untouched = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))

export const pauseThread: PauseThread = (durationMs) => {
  Atomics.wait(untouched, 0, 0, durationMs)
}

/** `pause`: null where others share the thread, which then get the time and pay with a late end. */
export async function waitUntil(
  clock: Clock,
  dueMs: number,
  pause: PauseThread | null,
): Promise<void> {
  const max = engineLimits.threadPauseMsMax
  for (;;) {
    const remainingMs = dueMs - clock.now()
    if (remainingMs <= 0) return
    if (pause === null) await elapsed(clock, remainingMs)
    else if (remainingMs >= max) await elapsed(clock, Math.floor(remainingMs) - 1)
    else {
      pause(remainingMs)
      await turnOfEventLoop()
    }
  }
}

const elapsed = (clock: Clock, delayMs: number): Promise<void> =>
  new Promise((resolve) => clock.after(delayMs, resolve))
