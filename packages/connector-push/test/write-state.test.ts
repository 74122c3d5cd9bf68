import { ConnectorError, type AnyConnectorError, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  openPostCount,
  stepWrite,
  writeTransitions,
  type WriteEvent,
  type WriteState,
} from '@kvferry/connector-api/remote-writes'

const now = 1_000 as Instant
const errorOf = (what: string): AnyConnectorError =>
  new ConnectorError('ERR_KV_CLOSED', what, { what })
const [error, earlier] = [errorOf('event'), errorOf('earlier')]

const writing = (postCount: number, isLast: boolean, isNotified: boolean) =>
  ({ kind: 'writing', postCount, isLast, isNotified }) as const

const failing = 'ended: tell-failed answer-withdrawn end'
const withdrawn = 'ended: answer-withdrawn end'
const partial = {
  post: 'writing:',
  'last post': 'writing:',
  'post-fail': 'closing:',
  withdraw: 'closing:',
  leave: 'closing:',
  'source-fail': 'closing:',
  preempt: 'rewinding:',
}
/** Everything is on its way: how it ends is the answer to whatever comes. */
const last = {
  withdraw: 'writing:',
  leave: 'writing:',
  'source-fail': 'writing:',
  preempt: 'writing:',
}

testMachine('write', {
  step: (state, event, at) => stepWrite(state, event, at, undefined),
  now,
  table: writeTransitions,
  states: {
    waiting: { kind: 'waiting' },
    'writing a chunk': writing(1, false, false),
    'writing two chunks': writing(2, false, false),
    'writing the last, which tells': writing(1, true, true),
    'writing the last, which does not tell': writing(1, true, false),
    'writing the last and another': writing(2, true, false),
    'rewinding, one open': { kind: 'rewinding', postCount: 1 },
    'rewinding, two open': { kind: 'rewinding', postCount: 2 },
    'closing, one open': { kind: 'closing', postCount: 1, error: null },
    'closing, two open': { kind: 'closing', postCount: 2, error: null },
    'failing, one open': { kind: 'closing', postCount: 1, error: earlier },
    written: { kind: 'ended', outcome: 'written' },
    failed: { kind: 'ended', outcome: 'failed' },
    withdrawn: { kind: 'ended', outcome: 'withdrawn' },
  } satisfies Record<string, WriteState>,
  events: {
    post: { kind: 'post', isLast: false, isNotified: false },
    'last post': { kind: 'post', isLast: true, isNotified: true },
    'post-fail': { kind: 'post-fail', error },
    done: { kind: 'write-done' },
    fail: { kind: 'write-fail', error },
    withdraw: { kind: 'withdraw' },
    leave: { kind: 'leave' },
    'source-fail': { kind: 'source-fail', error },
    preempt: { kind: 'preempt' },
  } satisfies Record<string, WriteEvent>,
  show: (effect) => (effect.kind === 'answer' ? `answer-${effect.answer}` : effect.kind),
  expected: {
    waiting: {
      post: 'writing:',
      'last post': 'writing:',
      'post-fail': failing,
      withdraw: withdrawn,
      leave: withdrawn,
      'source-fail': failing,
      preempt: 'waiting:',
    },
    'writing a chunk': { ...partial, done: 'waiting:', fail: failing },
    'writing two chunks': { ...partial, done: 'writing:', fail: 'closing:' },
    'writing the last, which tells': {
      ...last,
      done: 'ended: tell-done answer-written end',
      fail: failing,
    },
    'writing the last, which does not tell': {
      ...last,
      done: 'ended: notify tell-done answer-written end',
      fail: failing,
    },
    'writing the last and another': { ...last, done: 'writing:', fail: 'closing:' },
    'rewinding, one open': {
      done: 'waiting: resume',
      fail: failing,
      withdraw: 'closing:',
      leave: 'closing:',
      'source-fail': 'closing:',
      preempt: 'rewinding:',
    },
    'rewinding, two open': {
      done: 'rewinding:',
      fail: 'closing:',
      withdraw: 'closing:',
      leave: 'closing:',
      'source-fail': 'closing:',
      preempt: 'rewinding:',
    },
    'closing, one open': {
      done: withdrawn,
      fail: withdrawn,
      withdraw: 'closing:',
      leave: 'closing:',
      'source-fail': 'closing:',
      preempt: 'closing:',
    },
    'closing, two open': {
      done: 'closing:',
      fail: 'closing:',
      withdraw: 'closing:',
      leave: 'closing:',
      'source-fail': 'closing:',
      preempt: 'closing:',
    },
    'failing, one open': {
      done: failing,
      fail: failing,
      withdraw: 'closing:',
      leave: 'closing:',
      'source-fail': 'closing:',
      preempt: 'closing:',
    },
    written: {
      withdraw: 'ended: answer-written',
      leave: 'ended:',
      'source-fail': 'ended:',
      preempt: 'ended:',
    },
    failed: {
      withdraw: 'ended: answer-withdrawn',
      leave: 'ended:',
      'source-fail': 'ended:',
      preempt: 'ended:',
    },
    withdrawn: {
      withdraw: 'ended: answer-withdrawn',
      leave: 'ended:',
      'source-fail': 'ended:',
      preempt: 'ended:',
    },
  },
})

test('the consumer is answered and told only when no WRITE is open (56)', () => {
  const seen = new Set<string>()
  const visit = (state: WriteState): void => {
    const key = JSON.stringify(state, (_, value: unknown) => (value === error ? 'error' : value))
    if (seen.has(key) || openPostCount(state) > 3) return
    seen.add(key)
    const events: WriteEvent[] = [
      { kind: 'post', isLast: false, isNotified: false },
      { kind: 'post-fail', error },
      { kind: 'write-done' },
      { kind: 'write-fail', error },
      { kind: 'withdraw' },
      { kind: 'leave' },
      { kind: 'source-fail', error },
      { kind: 'preempt' },
    ]
    for (const event of events) {
      if (writeTransitions[state.kind][event.kind] === undefined) continue
      const { state: next, effects } = stepWrite(state, event, now, undefined)
      if (effects.length > 0) expect(openPostCount(next), key).toBe(0)
      visit(next)
    }
  }
  visit({ kind: 'waiting' })
  expect(seen.size).toBeGreaterThan(10)
})
