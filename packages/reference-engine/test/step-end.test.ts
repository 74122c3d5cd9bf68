/** When a step's wait for its modelled end ends, and what is heard before it does. */
import { createSimClock } from '@kvferry/connector-api/testing'
import { createSystemClock } from '@kvferry/runtime'
import { expect, it } from 'vitest'
import { pauseThread, waitUntil } from '../src/core/step-end.ts'
import { engineLimits } from '../src/limits.ts'

/** A thread that sleeps for a part of what it is told, as a wait that wakes early. */
function createSleeper(share: number) {
  const clock = createSimClock()
  const pausesMs: number[] = []
  let sleptMs = 0
  const now = () => clock.now() + sleptMs
  return {
    clock: { ...clock, now, after: clock.after.bind(clock) } as typeof clock,
    advance: (ms: number) => clock.advance(ms),
    now,
    pausesMs,
    pause: (ms: number) => {
      pausesMs.push(ms)
      sleptMs += ms * share
    },
  }
}

it('the thread is paused for the last of it only', async () => {
  const sleeper = createSleeper(1)
  const dueMs = sleeper.now() + 7.25
  const end = waitUntil(sleeper.clock, dueMs, sleeper.pause)
  await sleeper.advance(5)
  expect(sleeper.pausesMs).toEqual([])
  await sleeper.advance(1)
  await end
  expect(sleeper.pausesMs).toEqual([1.25])
  expect(sleeper.now()).toBe(dueMs)
})

it('it never ends early, whatever wakes the thread', async () => {
  const sleeper = createSleeper(0.5)
  const dueMs = sleeper.now() + 1
  await waitUntil(sleeper.clock, dueMs, (ms) => sleeper.pause(Math.max(ms, 0.25)))
  expect(sleeper.now()).toBeGreaterThanOrEqual(dueMs)
  expect(sleeper.pausesMs.length).toBeGreaterThan(1)
  expect(Math.max(...sleeper.pausesMs)).toBeLessThan(engineLimits.threadPauseMsMax)
})

it('what arrived during the pause is handled before it ends', async () => {
  const heard: string[] = []
  setImmediate(() => heard.push('message'))
  const clock = createSystemClock()
  await waitUntil(clock, clock.now() + 1, pauseThread)
  expect(heard).toEqual(['message'])
})

it('a shared thread is not paused', async () => {
  const clock = createSimClock()
  let isOver = false
  const end = waitUntil(clock, clock.now() + 1.5, null).then(() => (isOver = true))
  await clock.advance(1.25)
  expect(isOver).toBe(false)
  await clock.advance(0.25)
  await end
  expect(isOver).toBe(true)
})
