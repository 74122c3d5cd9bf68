import { expect, test } from 'vitest'
import { EqualTimers } from '../src/index.ts'
import { createSimClock } from '../src/testing/index.ts'

const delayMs = 100

function create() {
  const clock = createSimClock()
  const fired: [string, number][] = []
  const timers = new EqualTimers(clock, delayMs)
  const start = (name: string) => timers.start(() => fired.push([name, clock.now()]))
  const beganAt = clock.now()
  return { clock, timers, start, fired, after: (ms: number) => beganAt + ms }
}

test('each fires once, in its turn and at its moment, over one timer of the clock', async () => {
  const { clock, start, fired, after } = create()
  start('a')
  await clock.advance(30)
  start('b')
  start('c')
  expect(clock.pendingCount).toBe(1)
  await clock.advance(500)
  expect(fired).toEqual([
    ['a', after(100)],
    ['b', after(130)],
    ['c', after(130)],
  ])
  expect(clock.pendingCount).toBe(0)
})

test('stopped ones don’t fire, and what is started later has its whole time', async () => {
  const { clock, start, fired, after } = create()
  const first = start('first')
  await clock.advance(60)
  const second = start('second')
  first.stop()
  first.stop()
  await clock.advance(60)
  expect(fired).toEqual([])
  start('third')
  second.stop()
  await clock.advance(500)
  expect(fired).toEqual([['third', after(220)]])
})

test('one that fires may stop the next, and start another', async () => {
  const { clock, timers, fired, start, after } = create()
  const rest: { stop(): void }[] = []
  timers.start(() => {
    rest.forEach((timer) => timer.stop())
    start('again')
  })
  rest.push(start('next'))
  await clock.advance(500)
  expect(fired).toEqual([['again', after(200)]])
})

test('a listener that throws takes no other’s turn away', async () => {
  const { clock, timers, start, fired } = create()
  timers.start(() => {
    throw new Error('broken')
  })
  start('next')
  await expect(clock.advance(delayMs)).rejects.toThrow('broken')
  await clock.advance(delayMs)
  expect(fired.map(([name]) => name)).toEqual(['next'])
})

test('closing leaves no timer', async () => {
  const { clock, timers, start, fired } = create()
  start('a')
  timers.close()
  expect(clock.pendingCount).toBe(0)
  await clock.advance(500)
  expect(fired).toEqual([])
})
