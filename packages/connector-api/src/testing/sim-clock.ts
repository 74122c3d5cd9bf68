/**
 * Virtual time. Owns the queue of timers of one simulated world; every port of that world gets this
 * clock, so a lease of 30 s takes microseconds and a failing run can be repeated from its seed. Nothing
 * here waits for real time. Time moves only inside `advance`, `runUntil`, `runUntilIdle` and `wait`.
 *
 * Between two timers all promise continuations run, as in a real event loop. Timers due at the same
 * instant run in an order drawn from the seed (without a seed: in the order they were set), because
 * code that depends on that order is wrong.
 */
import { setImmediate } from 'node:timers'
import { assert } from '../assert.ts'
import { instantPlus } from '../clock.ts'
import type { Clock, Instant, Timer } from '../clock.ts'
import { createSeededRandom } from './seeded-random.ts'

/** A simulation that needs more is taken to be a timer that sets itself again for ever. */
const timersPerRunMax = 2_000_000

/** Not zero, so that code which takes 0 for "not set" is found out. */
const origin = 1_000 as Instant

interface PendingTimer {
  readonly dueAt: Instant
  readonly tie: number
  readonly sequence: number
  readonly callback: () => void
  isStopped: boolean
}

export interface SimClock extends Clock {
  /** Timers set and neither run nor stopped. */
  readonly pendingCount: number
  /** Runs everything due within the next `durationMs`; then the time is exactly that much later. */
  advance(durationMs: number): Promise<void>
  /** Runs timers until `condition` holds. False when `limitMs` passed, or nothing is pending, before. */
  runUntil(condition: () => boolean, limitMs: number): Promise<boolean>
  /** Runs timers until none is pending. @throws Error when that takes more than `limitMs` or the bound of timers. */
  runUntilIdle(limitMs?: number): Promise<void>
  /** Runs timers until `promise` is settled. @throws Error when it isn't within `limitMs`; else what it throws. */
  wait<T>(promise: Promise<T>, limitMs: number): Promise<T>
}

/** Lets every promise continuation that is ready run; takes a turn of the event loop, not a delay. */
const runContinuations = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const isBefore = (a: PendingTimer, b: PendingTimer): boolean =>
  a.dueAt !== b.dueAt
    ? a.dueAt < b.dueAt
    : a.tie !== b.tie
      ? a.tie < b.tie
      : a.sequence < b.sequence

/** Binary heap; stopped timers are dropped when they reach the top. */
class TimerQueue {
  readonly #heap: PendingTimer[] = []

  push(timer: PendingTimer): void {
    const heap = this.#heap
    let index = heap.push(timer) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(timer, heap[parent]!)) break
      heap[index] = heap[parent]!
      index = parent
    }
    heap[index] = timer
  }

  first(): PendingTimer | undefined {
    while (this.#heap[0]?.isStopped) this.#removeFirst()
    return this.#heap[0]
  }

  takeFirst(): PendingTimer | undefined {
    const first = this.first()
    if (first !== undefined) this.#removeFirst()
    return first
  }

  #removeFirst(): void {
    const heap = this.#heap
    const last = heap.pop()!
    if (heap.length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1
      if (!isBefore(heap[child]!, last)) break
      heap[index] = heap[child]!
      index = child
    }
    heap[index] = last
  }
}

/** @param seed decides the order of timers that are due at the same instant. */
export function createSimClock(seed?: number): SimClock {
  const queue = new TimerQueue()
  const ties = seed === undefined ? null : createSeededRandom(seed)
  let now = origin
  let sequence = 0
  let pendingCount = 0
  let isRunning = false

  function runFirst(): void {
    const timer = queue.takeFirst()
    assert(timer !== undefined, 'no timer to run')
    timer.isStopped = true
    pendingCount -= 1
    now = timer.dueAt
    timer.callback()
  }

  /** Runs timers due at or before `limit` until `isDone`; true when it became so. */
  async function run(isDone: () => boolean, limit: Instant): Promise<boolean> {
    // Two drivers at once would let each see time jump under it.
    if (isRunning) throw new Error('the simulated clock is already being driven')
    isRunning = true
    try {
      await runContinuations()
      for (let count = 0; !isDone(); count += 1) {
        if (count === timersPerRunMax) throw new Error(`no rest after ${count} timers`)
        const first = queue.first()
        if (first === undefined || first.dueAt > limit) return false
        runFirst()
        await runContinuations()
      }
      return true
    } finally {
      isRunning = false
    }
  }

  const clock: SimClock = {
    now: () => now,
    after(delayMs, callback): Timer {
      if (!(delayMs >= 0 && delayMs < Infinity)) throw new RangeError(`delayMs: ${delayMs}`)
      const timer: PendingTimer = {
        dueAt: instantPlus(now, delayMs),
        tie: ties === null ? 0 : ties.uniform(),
        sequence: (sequence += 1),
        callback,
        isStopped: false,
      }
      queue.push(timer)
      pendingCount += 1
      return {
        stop() {
          if (timer.isStopped) return
          timer.isStopped = true
          pendingCount -= 1
        },
      }
    },
    get pendingCount() {
      return pendingCount
    },
    async advance(durationMs) {
      const end = instantPlus(now, durationMs)
      await run(() => false, end)
      now = end
    },
    runUntil: (condition, limitMs) => run(condition, instantPlus(now, limitMs)),
    async runUntilIdle(limitMs = Infinity) {
      const isIdle = await run(() => pendingCount === 0, instantPlus(now, limitMs))
      if (!isIdle) throw new Error(`${pendingCount} timers still pending after ${limitMs} ms`)
    },
    async wait(promise, limitMs) {
      let isSettled = false
      const settle = (): void => {
        isSettled = true
      }
      promise.then(settle, settle)
      const start = now
      const ended = await run(() => isSettled, instantPlus(now, limitMs))
      if (!ended) throw new Error(`not settled after ${now - start} ms of virtual time`)
      return promise
    },
  }
  return clock
}
