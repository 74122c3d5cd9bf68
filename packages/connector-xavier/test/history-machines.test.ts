/** The two machines of the history, pair by pair: a returning prompt (scheduler half), a reservation (worker half). */
import { ConnectorError, type HistoryLease, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import { OfferedPrompts } from '../src/history/offered-prompts.ts'
import {
  stepReservation,
  type ReservationEvent,
  type ReservationState,
} from '../src/history/reservation-state.ts'
import { reservationTransitions } from '../src/history/reservation-transitions.ts'
import {
  stepReturning,
  type ReturningEvent,
  type ReturningState,
} from '../src/history/returning-state.ts'
import { returningTransitions } from '../src/history/returning-transitions.ts'

const now = 1_000 as Instant
const later = 2_000 as Instant

/** 29 tokens are kept, in blocks of four: eight blocks, the last of them partly filled. */
const context = { blockTokens: 4, tokenCount: 29, renewAfterMs: 60, giveUpAfterMs: 5 }

interface Situation {
  readonly kind: ReturningState['kind']
  readonly state: ReturningState
  readonly isKnown: boolean
}
const situation = (state: ReturningState, isKnown = true): Situation => ({
  ...{ kind: state.kind, state, isKnown },
})
const answered = (firstBlock: number, blockCount: number, renewAt = later): Situation =>
  situation({ kind: 'answered', firstBlock, blockCount, renewAt })

const answers = (state: string) => ({ answer: `${state}:`, 'another answer': `${state}:` })
const taken = { 'allocated, 29': 'restoring: 0-29@0', 'allocated, 17': 'restoring: 12-29@0' }
const given = { 'allocated, none': 'settled: forget', finished: 'ended: forget' }

testMachine('returning prompt', {
  step: ({ state, isKnown }: Situation, event: ReturningEvent) => {
    const next = stepReturning(state, event, now, { ...context, isKnown })
    return { state: situation(next.state, isKnown), effects: next.effects }
  },
  now,
  table: returningTransitions,
  states: {
    new: situation({ kind: 'new' }),
    'never offered': situation({ kind: 'new' }, false),
    asked: situation({ kind: 'asked', question: 7, firstBlock: 0, giveUpAt: later }),
    'asked in vain': situation({ kind: 'asked', question: 7, firstBlock: 0, giveUpAt: now }),
    'all is there': answered(0, 8),
    'nothing is there': answered(0, 0),
    'blocks 2 to 4 are there': answered(2, 3),
    'soon over': answered(0, 8, now),
    restoring: situation({ kind: 'restoring' }),
    settled: situation({ kind: 'settled' }),
    aborting: situation({ kind: 'aborting' }),
    ended: situation({ kind: 'ended' }),
  },
  events: {
    'match after 0': { kind: 'match', computedTokenCount: 0, question: 9 },
    'match after 12': { kind: 'match', computedTokenCount: 12, question: 9 },
    'match after 28': { kind: 'match', computedTokenCount: 28, question: 9 },
    answer: { kind: 'answered', question: 7, blockCount: 5 },
    'another answer': { kind: 'answered', question: 3, blockCount: 5 },
    'allocated, none': { kind: 'allocated', externalTokenCount: 0 },
    'allocated, 29': { kind: 'allocated', externalTokenCount: 29 },
    'allocated, 17': { kind: 'allocated', externalTokenCount: 17 },
    received: { kind: 'received' },
    finished: { kind: 'finished' },
  },
  show: (effect) => {
    switch (effect.kind) {
      case 'reply':
        return effect.tokens === null ? 'wait' : `${effect.tokens}`
      case 'ask':
        return `ask-${effect.question}@${effect.firstBlock}`
      case 'restore':
        return `${effect.tokenStart}-${effect.tokenEnd}@${effect.firstBlock}`
      case 'forget':
        return effect.kind
    }
  },
  expected: {
    new: {
      ...{ 'match after 0': 'asked: ask-9@0 wait', 'match after 12': 'asked: ask-9@3 wait' },
      // RT-47
      'match after 28': 'new: 0',
      ...{ ...answers('new'), 'allocated, none': 'settled:', finished: 'ended:' },
    },
    'never offered': {
      ...{ 'match after 0': 'new: 0', 'match after 12': 'new: 0', 'match after 28': 'new: 0' },
      ...{ ...answers('new'), 'allocated, none': 'settled:', finished: 'ended:' },
    },
    asked: {
      ...{ 'match after 0': 'asked: wait', 'match after 12': 'asked: wait' },
      ...{ 'match after 28': 'asked: wait', answer: 'answered:', 'another answer': 'asked:' },
      ...given,
    },
    // Nobody waits any more; what is reserved after all is given back.
    'asked in vain': {
      ...{ 'match after 0': 'settled: forget 0', 'match after 12': 'settled: forget 0' },
      ...{ 'match after 28': 'settled: forget 0', answer: 'answered:', 'another answer': 'asked:' },
      ...given,
    },
    'all is there': {
      ...{ 'match after 0': 'answered: 29', 'match after 12': 'answered: 17' },
      ...{ 'match after 28': 'answered: 0', ...answers('answered'), ...given, ...taken },
    },
    'nothing is there': {
      ...{ 'match after 0': 'answered: 0', 'match after 12': 'answered: 0' },
      ...{ 'match after 28': 'answered: 0', ...answers('answered') },
      ...{ 'allocated, none': 'settled:', finished: 'ended:' },
    },
    'blocks 2 to 4 are there': {
      // RT-32: the engine's own hit has shrunk; the old reservation goes before a new one is made.
      'match after 0': 'asked: forget ask-9@0 wait',
      ...{ 'match after 12': 'answered: 8', 'match after 28': 'answered: 0' },
      ...{ ...answers('answered'), ...given },
    },
    'soon over': {
      'match after 0': 'asked: forget ask-9@0 wait',
      'match after 12': 'asked: forget ask-9@3 wait',
      ...{ 'match after 28': 'answered: 0', ...answers('answered'), ...given, ...taken },
    },
    restoring: { ...answers('restoring'), received: 'settled:', finished: 'aborting:' },
    settled: {
      ...{ 'match after 0': 'settled: 0', 'match after 12': 'settled: 0' },
      ...{ 'match after 28': 'settled: 0', ...answers('settled') },
      ...{ 'allocated, none': 'settled:', finished: 'ended:' },
    },
    aborting: { ...answers('aborting'), received: 'ended:' },
  },
})

const lease = 'history:1' as HistoryLease
const blockIds = Uint32Array.of(3)
const error = new ConnectorError('ERR_KV_CLOSED', 'over', { what: 'history' })
const restoring: ReservationState = { kind: 'restoring', blockIds, isOverdue: false }
const whileRestoring = {
  ...{ forget: 'restoring:', close: 'restoring:', overdue: 'restoring: alarm' },
  ...{ 'restore-end': 'ended: report', 'restore failed': 'ended: report-ERR_KV_CLOSED' },
}

testMachine('reservation', {
  step: (state: ReservationState, event: ReservationEvent) =>
    stepReservation(state, event, now, undefined),
  now,
  table: reservationTransitions,
  states: {
    none: { kind: 'none' },
    reserved: { kind: 'reserved', lease },
    restoring,
    'restoring, overdue': { ...restoring, isOverdue: true },
    ended: { kind: 'ended' },
  },
  events: {
    found: { kind: 'found', lease: 'history:2' as HistoryLease },
    missing: { kind: 'missing' },
    restore: { kind: 'restore', blockIds },
    forget: { kind: 'forget' },
    overdue: { kind: 'overdue' },
    'restore-end': { kind: 'restore-end', error: null },
    'restore failed': { kind: 'restore-end', error },
    close: { kind: 'close' },
  },
  show: (effect) => {
    if (effect.kind === 'release') return `release-${effect.lease}`
    return effect.kind === 'report' && effect.error !== null
      ? `report-${effect.error.code}`
      : effect.kind
  },
  expected: {
    none: { found: 'reserved:', missing: 'ended:' },
    reserved: {
      // RT-32, H2
      ...{ found: 'reserved: release-history:1', missing: 'ended: release-history:1' },
      ...{ restore: 'restoring: copy', forget: 'ended: release-history:1' },
      close: 'ended: release-history:1',
    },
    restoring: whileRestoring,
    'restoring, overdue': whileRestoring,
  },
})

test('which prompts were offered is remembered by their first blocks, the latest ones', () => {
  const offered = new OfferedPrompts(2)
  const keysOf = (first: number, count = 2) => new Uint8Array(32 * count).fill(first, 0, 32)
  for (const first of [1, 2, 1, 3]) offered.add(keysOf(first))
  offered.add(new Uint8Array())
  expect([1, 2, 3].map((first) => offered.has(keysOf(first, 5)))).toEqual([true, false, true])
  expect(offered.has(new Uint8Array())).toBe(false)
})
