import { EndWait, within } from '@kvferry/connector-api/protocol'
import { createSimClock } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'

test('a wait ends with its work, not with what is only a part of it, and leaves no timer', async () => {
  const clock = createSimClock()
  let left = 2
  const wait = new EndWait(clock, () => left === 0)
  let isOver = false
  const over = wait.wait(1_000).then(() => (isOver = true))
  left = 1
  wait.check()
  await clock.advance(10)
  expect(isOver).toBe(false)
  left = 0
  wait.check()
  await over
  expect(clock.pendingCount).toBe(0)
})

test('it ends at its deadline when the work does not', async () => {
  const clock = createSimClock()
  const wait = new EndWait(clock, () => false)
  let isOver = false
  void wait.wait(1_000).then(() => (isOver = true))
  await clock.advance(999)
  expect(isOver).toBe(false)
  await clock.advance(1)
  expect(isOver).toBe(true)
  expect(clock.pendingCount).toBe(0)
})

test('nothing is waited for when all has ended', async () => {
  const clock = createSimClock()
  await new EndWait(clock, () => true).wait(1_000)
  expect(clock.pendingCount).toBe(0)
})

test('work that fails has ended as well; work that hangs is late', async () => {
  const clock = createSimClock()
  expect(await within(clock, 50, Promise.reject(new Error('no')))).toBe(true)
  const late = within(clock, 50, new Promise(() => {}))
  await clock.advance(50)
  expect(await late).toBe(false)
  expect(clock.pendingCount).toBe(0)
})
