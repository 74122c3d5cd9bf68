/** The first request to stop asks, a later signal ends at once, and a parent's death counts as a request. */
import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { onStopRequest, type StopReason } from '../src/index.ts'

function setup(stdinEnd = false) {
  const signals = new EventEmitter()
  const stdin = new PassThrough()
  const reasons: StopReason[] = []
  const exits: number[] = []
  let nowMs = 10_000
  onStopRequest((reason) => reasons.push(reason), {
    stdinEnd,
    host: {
      on: (signal, listener) => signals.on(signal, listener),
      exit: (code) => void exits.push(code),
      stdin,
      now: () => nowMs,
    },
  })
  const send = (signal: string, afterMs = 0) => {
    nowMs += afterMs
    signals.emit(signal)
  }
  return { reasons, exits, send, stdin }
}

it('asks once, whatever comes first', () => {
  const { reasons, exits, send } = setup()
  send('SIGINT')
  expect({ reasons, exits }).toEqual({ reasons: ['SIGINT'], exits: [] })
})

it.each([
  ['SIGTERM', 'SIGTERM', 143],
  ['SIGTERM', 'SIGINT', 130],
  ['SIGINT', 'SIGTERM', 143],
])('%s, then %s, ends at once', (first, second, code) => {
  const { reasons, exits, send } = setup()
  send(first)
  send(second, 600)
  expect({ reasons, exits }).toEqual({ reasons: [first], exits: [code] })
})

it('takes two signals in one moment for one', () => {
  const { exits, send } = setup()
  send('SIGINT')
  send('SIGINT', 100)
  send('SIGTERM', 100)
  expect(exits).toEqual([])
})

it('asks when standard input ends, if that was wanted; a signal after it ends at once', async () => {
  const { reasons, exits, send, stdin } = setup(true)
  stdin.end()
  await expect.poll(() => reasons).toEqual(['stdin-end'])
  send('SIGTERM', 600)
  expect(exits).toEqual([143])
  const other = setup(false)
  other.stdin.resume().end()
  await new Promise((resolve) => other.stdin.once('end', resolve))
  expect(other.reasons).toEqual([])
})

it('reads standard input until it is asked to stop, and no longer', () => {
  const { send, stdin } = setup(true)
  expect(stdin.isPaused()).toBe(false)
  send('SIGTERM')
  expect(stdin.isPaused()).toBe(true)
})
