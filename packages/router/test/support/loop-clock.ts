/**
 * A clock in whose time a halted process stands still: a turn of the event loop, in which everybody's I/O is
 * done, counts as a few milliseconds at most. Fake engines, router and client share the loop, so a deadline
 * ends what hangs, and never what a busy machine made late.
 */
import type { Clock, Instant, Timer } from '@kvferry/connector-api'

const turnMs = 2
const turnMsMax = 5

export function createLoopClock(): Clock {
  const realMs = (): number => Number(process.hrtime.bigint()) / 1e6
  const timers = new Map<Timer, { readonly dueAt: number; readonly callback: () => void }>()
  let seenAt = realMs()
  let at = seenAt
  let ticker: NodeJS.Timeout | null = null

  const now = (): number => at + Math.min(realMs() - seenAt, turnMsMax)
  const advance = (): void => {
    at = now()
    seenAt = realMs()
  }
  const remove = (timer: Timer): void => {
    timers.delete(timer)
    if (timers.size > 0 || ticker === null) return
    clearInterval(ticker)
    ticker = null
  }
  const turn = (): void => {
    advance()
    for (const [timer, { dueAt, callback }] of [...timers]) {
      if (dueAt > at || !timers.has(timer)) continue
      remove(timer)
      callback()
    }
  }
  return {
    now: () => now() as Instant,
    after(delayMs, callback) {
      advance()
      const timer: Timer = { stop: () => remove(timer) }
      timers.set(timer, { dueAt: at + delayMs, callback })
      ticker ??= setInterval(turn, turnMs)
      return timer
    },
  }
}
