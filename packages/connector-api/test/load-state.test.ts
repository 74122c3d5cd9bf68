import { expect, test } from 'vitest'
import { testMachine } from '../src/conformance/index.ts'
import { ConnectorError, type AnyConnectorError, type Instant } from '../src/index.ts'
import { loadTransitions, stepLoad, type LoadEvent, type LoadState } from '../src/protocol/index.ts'

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
    done: { kind: 'part-done' },
    failed: { kind: 'part-failed', error: second },
    abort: { kind: 'abort', reason: second },
    deadline: { kind: 'deadline', error: second },
    'finish well': { kind: 'finish-end', error: null },
    'finish badly': { kind: 'finish-end', error: second },
  } satisfies Record<string, LoadEvent>,
  show: (effect) => (effect.kind === 'report' ? effect.outcome.kind : effect.kind),
  expected: {
    'waiting for two': {
      done: 'waiting:',
      failed: 'waiting: end-parts',
      abort: 'waiting: end-parts',
      deadline: 'waiting: end-parts',
    },
    'waiting for the last': {
      done: 'finishing: finish',
      failed: 'ended: failed',
      abort: 'waiting: end-parts',
      deadline: 'waiting: end-parts',
    },
    'failed, one open': {
      // It was done before its end came: half of the bytes are still missing.
      done: 'ended: failed',
      failed: 'ended: failed',
      abort: 'waiting: end-parts',
      deadline: 'waiting: end-parts',
    },
    'failed, two open': {
      done: 'waiting:',
      failed: 'waiting:',
      abort: 'waiting: end-parts',
      deadline: 'waiting: end-parts',
    },
    'aborted, one open': {
      done: 'ended: aborted',
      failed: 'ended: aborted',
      abort: 'waiting: end-parts',
      deadline: 'waiting: end-parts',
    },
    'aborted and failed, one open': {
      done: 'ended: aborted',
      failed: 'ended: aborted',
      abort: 'waiting: end-parts',
      deadline: 'waiting: end-parts',
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
  expect(one.effects).toEqual([{ kind: 'end-parts', reason: first }])
  const two = stepLoad(one.state, { kind: 'part-failed', error: second }, now, undefined)
  expect(two.effects).toEqual([{ kind: 'report', outcome: { kind: 'failed', error: first } }])
})
