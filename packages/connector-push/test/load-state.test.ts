import { ConnectorError, type AnyConnectorError, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  loadTransitions,
  stepLoad,
  type LoadEvent,
  type LoadState,
} from '@kvferry/connector-api/remote-writes'

const now = 1_000 as Instant
const errorOf = (what: string): AnyConnectorError =>
  new ConnectorError('ERR_KV_CLOSED', what, { what })
const [first, second] = [errorOf('first'), errorOf('second')]

const waiting = (openCount: number, failure: AnyConnectorError | null, isAborted = false) =>
  ({ kind: 'waiting', openCount, failure, isAborted }) as const

testMachine('load', {
  step: (state, event, at) => stepLoad(state, event, at, undefined),
  now,
  table: loadTransitions,
  states: {
    'waiting for two': waiting(2, null),
    'waiting for the last': waiting(1, null),
    'failed, one open': waiting(1, first),
    'failed, two open': waiting(2, first),
    'aborted, one open': waiting(1, null, true),
    'aborted and failed, one open': waiting(1, first, true),
    finishing: { kind: 'finishing', isAborted: false },
    'finishing, aborted': { kind: 'finishing', isAborted: true },
    ended: { kind: 'ended', outcome: { kind: 'loaded' } },
  } as Record<string, LoadState>,
  events: {
    written: { kind: 'part-written' },
    failed: { kind: 'part-failed', error: second },
    abort: { kind: 'abort', reason: second },
    deadline: { kind: 'deadline', error: second },
    'finish well': { kind: 'finish-end', error: null },
    'finish badly': { kind: 'finish-end', error: second },
  } satisfies Record<string, LoadEvent>,
  show: (effect) => (effect.kind === 'report' ? effect.outcome.kind : effect.kind),
  expected: {
    'waiting for two': {
      written: 'waiting:',
      failed: 'waiting: withdraw-parts',
      abort: 'waiting: withdraw-parts',
      deadline: 'waiting: withdraw-parts',
    },
    'waiting for the last': {
      written: 'finishing: finish',
      failed: 'ended: failed',
      abort: 'waiting: withdraw-parts',
      deadline: 'waiting: withdraw-parts',
    },
    'failed, one open': {
      // It was written before its withdrawal came: half of the bytes are still missing.
      written: 'ended: failed',
      failed: 'ended: failed',
      abort: 'waiting: withdraw-parts',
      deadline: 'waiting: withdraw-parts',
    },
    'failed, two open': {
      written: 'waiting:',
      failed: 'waiting:',
      abort: 'waiting: withdraw-parts',
      deadline: 'waiting: withdraw-parts',
    },
    'aborted, one open': {
      written: 'ended: aborted',
      failed: 'ended: aborted',
      abort: 'waiting: withdraw-parts',
      deadline: 'waiting: withdraw-parts',
    },
    'aborted and failed, one open': {
      written: 'ended: aborted',
      failed: 'ended: aborted',
      abort: 'waiting: withdraw-parts',
      deadline: 'waiting: withdraw-parts',
    },
    finishing: {
      abort: 'finishing:',
      deadline: 'finishing:',
      'finish well': 'ended: loaded',
      'finish badly': 'ended: failed',
    },
    'finishing, aborted': {
      abort: 'finishing:',
      deadline: 'finishing:',
      'finish well': 'ended: aborted',
      'finish badly': 'ended: aborted',
    },
    ended: { abort: 'ended:', deadline: 'ended:' },
  },
})

test('a load of two ranks fails with its first failure, once, when the other has ended (55)', () => {
  const one = stepLoad(waiting(2, null), { kind: 'part-failed', error: first }, now, undefined)
  expect(one.effects).toEqual([{ kind: 'withdraw-parts', reason: first }])
  const two = stepLoad(one.state, { kind: 'part-failed', error: second }, now, undefined)
  expect(two.effects).toEqual([{ kind: 'report', outcome: { kind: 'failed', error: first } }])
})
