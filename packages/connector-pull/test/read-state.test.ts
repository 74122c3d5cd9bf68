import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type Instant,
  type TransferHandle,
  type TransferTimes,
} from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import { stepRead, type ReadEvent, type ReadState } from '../src/read-state.ts'
import { readTransitions } from '../src/read-transitions.ts'

const now = 1_000 as Instant
const later = 1_001 as Instant
const transfer = 1 as TransferHandle
const times: TransferTimes = {
  queuedUs: 1,
  prepareUs: 1,
  postUs: 2,
  wireUs: 3,
  descriptorsBeforeMerge: 4,
  descriptorsAfterMerge: 5,
  bytes: 6,
}
const error = new ConnectorError('ERR_KV_CLOSED', 'x', { what: 'x' }) as AnyConnectorError
const margin = limits.leaseSafetyMarginMs

const reading = (grant: Extract<ReadState, { kind: 'reading' }>['grant']): ReadState => ({
  kind: 'reading',
  transfer,
  grant,
})

const states: Record<string, ReadState> = {
  connecting: { kind: 'connecting' },
  requesting: { kind: 'requesting' },
  posting: { kind: 'posting' },
  asked: { kind: 'asked' },
  'reading, asked': reading({ kind: 'asked' }),
  'reading, granted': reading({ kind: 'granted', validUntil: later }),
  'reading, grant over': reading({ kind: 'granted', validUntil: now }),
  'reading, refused': reading({ kind: 'refused', error }),
  'reading, unanswered': reading({ kind: 'unanswered' }),
  'overdue, asked': { kind: 'overdue', transfer, grant: { kind: 'asked' } },
  'overdue, granted': { kind: 'overdue', transfer, grant: { kind: 'granted', validUntil: later } },
  'overdue, unanswered': { kind: 'overdue', transfer, grant: { kind: 'unanswered' } },
  draining: { kind: 'draining', transfer },
  'draining-overdue': { kind: 'draining-overdue', transfer },
  'awaiting-grant': { kind: 'awaiting-grant', times },
  checking: { kind: 'checking', times },
  ended: { kind: 'ended', outcome: { kind: 'loaded' }, times },
}

const events: Record<string, ReadEvent> = {
  'peer-ready': { kind: 'peer-ready' },
  'peer-ready-staged': { kind: 'peer-ready-staged' },
  'peer-fail': { kind: 'peer-fail', error },
  'handoff-refuse': { kind: 'handoff-refuse', error },
  'handoff-accept': { kind: 'handoff-accept' },
  'post-end': { kind: 'post-end', transfer },
  'post-fail': { kind: 'post-fail', error },
  done: { kind: 'transfer-done', times },
  fail: { kind: 'transfer-fail', error, times },
  overdue: { kind: 'transfer-overdue' },
  grant: { kind: 'lease-grant', sentAt: now, durationMs: margin + 1 },
  'grant too short': { kind: 'lease-grant', sentAt: now, durationMs: margin },
  complete: { kind: 'lease-complete' },
  refuse: { kind: 'lease-refuse', error },
  silence: { kind: 'lease-silence', error },
  abort: { kind: 'abort' },
}

/** While the READ runs, everything but its end only changes what is known. */
const whileReading = (state: string) => ({
  'peer-fail': `${state}:`,
  fail: 'ended: release failed',
  grant: `${state}:`,
  'grant too short': `${state}:`,
  complete: `${state}:`,
  refuse: `${state}:`,
  silence: `${state}:`,
})
const fromReading = { ...whileReading('reading'), overdue: 'overdue:', abort: 'draining:' }
const fromOverdue = { ...whileReading('overdue'), abort: 'draining-overdue:' }
const late = (state: string) => ({
  'peer-fail': `${state}:`,
  grant: `${state}:`,
  'grant too short': `${state}:`,
  complete: `${state}:`,
  refuse: `${state}:`,
  silence: `${state}:`,
})

testMachine('read', {
  step: (state, event, at) => stepRead(state, event, at, undefined),
  now,
  table: readTransitions as never,
  states,
  events,
  show: (effect) => (effect.kind === 'report' ? effect.outcome.kind : effect.kind),
  expected: {
    connecting: {
      'peer-ready': 'posting: post',
      'peer-ready-staged': 'requesting: ask',
      'handoff-refuse': 'ended: failed',
      'peer-fail': 'ended: failed',
      abort: 'ended: release aborted',
    },
    // Nothing is read before a staging producer says that it can be.
    requesting: {
      'peer-fail': 'ended: release failed',
      grant: 'posting: post',
      'grant too short': 'posting: post',
      complete: 'ended: failed',
      refuse: 'ended: failed',
      silence: 'ended: release failed',
      abort: 'ended: release aborted',
    },
    posting: {
      'handoff-refuse': 'ended: failed',
      'handoff-accept': 'asked: ask',
      abort: 'ended: release aborted',
    },
    asked: {
      'post-end': 'reading:',
      'post-fail': 'ended: release failed',
      abort: 'ended: release aborted',
    },
    'reading, asked': { ...fromReading, done: 'awaiting-grant:' },
    'reading, granted': { ...fromReading, done: 'ended: loaded' },
    'reading, grant over': { ...fromReading, done: 'checking: ask' },
    'reading, refused': { ...fromReading, done: 'ended: failed' },
    'reading, unanswered': { ...fromReading, done: 'checking: ask' },
    'overdue, asked': { ...fromOverdue, done: 'awaiting-grant:' },
    'overdue, granted': { ...fromOverdue, done: 'ended: loaded' },
    'overdue, unanswered': { ...fromOverdue, done: 'checking: ask' },
    // Aborted: no verdict, but never before the READ is over.
    draining: {
      ...late('draining'),
      done: 'ended: aborted',
      fail: 'ended: release aborted',
      overdue: 'draining-overdue:',
    },
    'draining-overdue': {
      ...late('draining-overdue'),
      done: 'ended: aborted',
      fail: 'ended: release aborted',
    },
    'awaiting-grant': {
      'peer-fail': 'awaiting-grant:',
      grant: 'ended: loaded',
      'grant too short': 'checking: ask',
      complete: 'ended: loaded',
      refuse: 'ended: failed',
      silence: 'checking: ask',
      abort: 'ended: aborted',
    },
    checking: {
      'peer-fail': 'checking:',
      grant: 'ended: loaded',
      // Asked after the READ's end: that it's held now is proof enough, however short.
      'grant too short': 'ended: loaded',
      complete: 'ended: loaded',
      refuse: 'ended: failed',
      silence: 'ended: failed',
      abort: 'ended: aborted',
    },
    ended: { ...late('ended'), abort: 'ended:' },
  },
})

test('a grant counts from when the question left, less the margin', () => {
  const granted = stepRead(
    states['reading, asked']!,
    { kind: 'lease-grant', sentAt: now, durationMs: 500 },
    (now + 300) as Instant,
    undefined,
  ).state
  const end = (at: number): string =>
    stepRead(granted, { kind: 'transfer-done', times }, (now + at) as Instant, undefined).state.kind
  expect(end(500 - margin - 1)).toBe('ended')
  expect(end(500 - margin)).toBe('checking')
})

test('that the producer heard of the READ’s end first is as good as a grant without end', () => {
  const known = stepRead(
    states['reading, asked']!,
    { kind: 'lease-complete' },
    now,
    undefined,
  ).state
  const end = stepRead(known, { kind: 'transfer-done', times }, 1e9 as Instant, undefined)
  expect(end.effects).toEqual([{ kind: 'report', outcome: { kind: 'loaded' } }])
})
