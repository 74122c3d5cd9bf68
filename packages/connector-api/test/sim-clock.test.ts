import { expect, test } from 'vitest'
import { createSimClock } from '@kvferry/connector-api/testing'

test('timers run in order of their time, never inside after() or now()', async () => {
  const clock = createSimClock()
  const start = clock.now()
  const log: string[] = []
  const record = (name: string) => () => log.push(`${name}@${clock.now() - start}`)
  clock.after(5, record('b'))
  clock.after(1, record('a'))
  clock.after(0, record('now'))
  expect(log).toEqual([])
  await clock.advance(4)
  expect(log).toEqual(['now@0', 'a@1'])
  expect(clock.now() - start).toBe(4)
  await clock.advance(1)
  expect(log).toEqual(['now@0', 'a@1', 'b@5'])
  expect(clock.pendingCount).toBe(0)
})

test('a stopped timer does not run, and stopping twice is harmless', async () => {
  const clock = createSimClock()
  let hasRun = false
  const timer = clock.after(1, () => (hasRun = true))
  const other = clock.after(2, () => {})
  timer.stop()
  timer.stop()
  expect(clock.pendingCount).toBe(1)
  await clock.advance(10)
  other.stop()
  expect(hasRun).toBe(false)
  expect(clock.pendingCount).toBe(0)
})

test('promise continuations run between two timers of the same instant', async () => {
  const clock = createSimClock()
  const log: string[] = []
  const work = async (name: string) => {
    log.push(name)
    await null
    await null
    log.push(`${name} continued`)
  }
  clock.after(1, () => void work('first'))
  clock.after(1, () => void work('second'))
  await clock.runUntilIdle()
  expect(log).toEqual(['first', 'first continued', 'second', 'second continued'])
})

const orderOf = async (seed?: number): Promise<string> => {
  const clock = createSimClock(seed)
  const log: number[] = []
  for (let index = 0; index < 8; index += 1) clock.after(3, () => log.push(index))
  await clock.runUntilIdle()
  return log.join('')
}

test('the seed decides ties: repeatable, and different from the order of setting', async () => {
  expect(await orderOf()).toBe('01234567')
  const orders = await Promise.all([1, 2, 3, 1].map(orderOf))
  expect(orders[3]).toBe(orders[0])
  expect(new Set(orders).size).toBe(3)
  for (const order of orders) expect([...order].sort().join('')).toBe('01234567')
})

test('runUntil stops at its condition, at its limit, and when nothing is left', async () => {
  const clock = createSimClock()
  let ticks = 0
  const tick = () => {
    ticks += 1
    clock.after(1, tick)
  }
  clock.after(1, tick)
  expect(await clock.runUntil(() => ticks === 3, 100)).toBe(true)
  expect(await clock.runUntil(() => ticks === 1_000, 10)).toBe(false)
  expect(ticks).toBe(13)
  expect(await createSimClock().runUntil(() => false, 100)).toBe(false)
  await expect(clock.runUntilIdle(5)).rejects.toThrow('still pending')
})

test('wait returns what the promise gives, or fails after its virtual limit', async () => {
  const clock = createSimClock()
  const later = new Promise<string>((resolve) => clock.after(20, () => resolve('late')))
  await expect(clock.wait(later, 10)).rejects.toThrow('not settled')
  expect(await clock.wait(later, 20)).toBe('late')
  await expect(clock.wait(Promise.reject(new Error('boom')), 1)).rejects.toThrow('boom')
})

test('delays that are no delays are refused, and so is a second driver', async () => {
  const clock = createSimClock()
  for (const delay of [-1, NaN, Infinity]) {
    expect(() => clock.after(delay, () => {})).toThrow(RangeError)
  }
  const first = clock.advance(1)
  await expect(clock.advance(1)).rejects.toThrow('already being driven')
  await first
})
