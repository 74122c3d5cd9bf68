import { ConnectorError, type AnyConnectorError, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  registrationTransitions,
  stepRegistration,
  type RegistrationEvent,
  type RegistrationState,
} from '@kvferry/connector-api/remote-writes'

const now = 1_000 as Instant
const errorOf = (what: string): AnyConnectorError =>
  new ConnectorError('ERR_KV_CLOSED', what, { what })
const error = errorOf('event')
const reason = errorOf('reason')

/** What ends it may be heard in any of these; what is not an end changes nothing. */
const ends = {
  refuse: 'failed:',
  'write-end': 'written:',
  'producer-fail': 'failed:',
  'withdraw-end': 'failed:',
  'writer-end': 'failed:',
}
const open = {
  silence: 'withdrawing: withdraw',
  'write-end': 'written:',
  'producer-fail': 'failed:',
  withdraw: 'withdrawing: withdraw',
}
const events: Record<string, RegistrationEvent> = {
  'link-ready': { kind: 'link-ready' },
  'link-fail': { kind: 'link-fail', error },
  accept: { kind: 'accept' },
  refuse: { kind: 'refuse', error },
  silence: { kind: 'silence', error },
  'write-end': { kind: 'write-end' },
  'producer-fail': { kind: 'producer-fail', error },
  withdraw: { kind: 'withdraw', reason: error },
  'withdraw-end': { kind: 'withdraw-end' },
  'withdraw-pending': { kind: 'withdraw-pending' },
  'writer-end': { kind: 'writer-end' },
}
const nothing = (state: string) =>
  Object.fromEntries(Object.keys(events).map((event) => [event, `${state}:`]))

testMachine('registration', {
  step: (state, event, at) => stepRegistration(state, event, at, undefined),
  now,
  table: registrationTransitions,
  states: {
    connecting: { kind: 'connecting' },
    registering: { kind: 'registering' },
    registered: { kind: 'registered' },
    withdrawing: { kind: 'withdrawing', reason },
    doubtful: { kind: 'doubtful', reason },
    written: { kind: 'written' },
    failed: { kind: 'failed', error: reason },
  } satisfies Record<string, RegistrationState>,
  events,
  expected: {
    connecting: {
      'link-ready': 'registering: register',
      'link-fail': 'failed:',
      withdraw: 'failed: release',
    },
    registering: { ...open, accept: 'registered:', refuse: 'failed: release' },
    registered: open,
    withdrawing: {
      ...ends,
      accept: 'withdrawing:',
      withdraw: 'withdrawing:',
      'withdraw-pending': 'withdrawing: withdraw-later',
      silence: 'doubtful: withdraw-later',
    },
    doubtful: {
      ...ends,
      accept: 'doubtful:',
      withdraw: 'doubtful:',
      'withdraw-pending': 'withdrawing: withdraw-later',
      silence: 'doubtful: withdraw-later',
    },
    written: nothing('written'),
    failed: nothing('failed'),
  },
})

const errorAfter = (state: RegistrationState, event: RegistrationEvent): unknown =>
  (stepRegistration(state, event, now, undefined).state as { error?: unknown }).error

test('a withdrawn registration fails with the reason of its withdrawal, not with the answer to it', () => {
  const withdrawing = stepRegistration(
    { kind: 'registered' },
    { kind: 'withdraw', reason },
    now,
    undefined,
  ).state
  const doubtful = stepRegistration(withdrawing, { kind: 'silence', error }, now, undefined).state
  for (const state of [withdrawing, doubtful]) {
    expect(errorAfter(state, { kind: 'withdraw-end' })).toBe(reason)
    expect(errorAfter(state, { kind: 'writer-end' })).toBe(reason)
    // The producer's own word is better informed.
    expect(errorAfter(state, { kind: 'producer-fail', error })).toBe(error)
  }
})

test('no silence, however often, ends a registration (architecture, 6.1)', () => {
  let state: RegistrationState = { kind: 'registered' }
  for (let count = 0; count < 100; count++) {
    state = stepRegistration(state, { kind: 'silence', error }, now, undefined).state
  }
  expect(state.kind).toBe('doubtful')
})
