/** The system's clock as a port: never early, never synchronous, stoppable. The waits here are real and tiny. */
import { afterEach, expect, it, vi } from 'vitest'
import { createSystemClock } from '../src/index.ts'

const clock = createSystemClock()
afterEach(() => {
  vi.useRealTimers()
})

it('counts milliseconds of the machine’s monotonic clock', () => {
  const before = Number(process.hrtime.bigint()) / 1e6
  const now = clock.now()
  const after = Number(process.hrtime.bigint()) / 1e6
  expect(now).toBeGreaterThanOrEqual(before)
  expect(now).toBeLessThanOrEqual(after)
})

it('never calls back early, also where the event loop’s own clock is coarser', async () => {
  for (let round = 0; round < 30; round++) {
    const delayMs = 0.5 + round * 0.11
    const startedAt = clock.now()
    const firedAt = await new Promise<number>((resolve) => {
      clock.after(delayMs, () => resolve(clock.now()))
    })
    expect(firedAt - startedAt).toBeGreaterThanOrEqual(delayMs)
  }
})

it('calls back once, and not synchronously, also for a delay that has passed', async () => {
  let count = 0
  const fired = new Promise<void>((resolve) => {
    clock.after(-5, () => {
      count++
      resolve()
    })
  })
  expect(count).toBe(0)
  await fired
  expect(count).toBe(1)
})

it('without a delay calls back after this turn, by no timer: the least of Node’s is a millisecond', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const order: string[] = []
  await new Promise<void>((resolve) => {
    clock.after(0, () => order.push('stopped')).stop()
    clock.after(0, () => {
      order.push('next turn')
      resolve()
    })
    void Promise.resolve().then(() => order.push('this turn'))
  })
  expect(order).toEqual(['this turn', 'next turn'])
})

it('doesn’t call back once stopped', async () => {
  let isCalled = false
  const timer = clock.after(1, () => (isCalled = true))
  timer.stop()
  timer.stop()
  await new Promise<void>((resolve) => clock.after(5, resolve))
  expect(isCalled).toBe(false)
})

it('waits longer than a 32-bit timer can, and can be stopped in between', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'hrtime'] })
  const fakeClock = createSystemClock()
  const monthMs = 31 * 24 * 3_600_000
  let count = 0
  fakeClock.after(monthMs, () => count++)
  const stopped = fakeClock.after(monthMs, () => (count += 100))
  vi.advanceTimersByTime(monthMs - 1)
  expect(count).toBe(0)
  stopped.stop()
  vi.advanceTimersByTime(2)
  expect(count).toBe(1)
})

it.each([NaN, Infinity, -Infinity])('refuses a delay of %d', (delayMs) => {
  expect(() => clock.after(delayMs, () => {})).toThrow(RangeError)
})
