/** A lease that several ranks of one consumer read: it is over with the last of them. */
import { asEngineId, asIncarnation, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  stepLease,
  type Claim,
  type LeaseEvent,
  type LeaseState,
  type Reader,
} from '../src/lease-state.ts'

const now = 1_000 as Instant
const later = 1_001 as Instant
const reader: Reader = {
  engineId: asEngineId('d0'),
  incarnation: asIncarnation('d0-1'),
  loadId: 1,
}
const claimOf = (...stands: readonly Claim['shares'][number][]): Claim => ({
  reader,
  shareCount: stands.length,
  shares: { ...stands },
})
const context = { leaseDurationMs: 500, completedReadRetentionMs: 50 }

/** Of one of two ranks. */
function newsOf(from: string, rank: number): Record<string, LeaseEvent> {
  const share = { rank, count: 2 }
  return {
    [`renew${from}`]: { kind: 'renew', reader, share },
    [`read-done${from}`]: { kind: 'read-done', reader, share },
    [`release${from}`]: { kind: 'release', reader, share },
  }
}

/** What each rank of two that read from here has said, and what follows from the second one's news. */
testMachine('lease of two ranks', {
  step: (state, event, at) => stepLease(state, event, at, context),
  now,
  show: (effect) => {
    if (effect.kind === 'answer') return effect.answer.kind
    return effect.kind === 'count' ? effect.what : effect.kind
  },
  // That of one rank covers it (lease-state.test.ts).
  table: null,
  states: {
    'announced, the first read': {
      ...{ kind: 'announced', promisedUntil: later },
      claim: { ...claimOf('read'), shareCount: 2 },
    },
    'announced, the first released': {
      ...{ kind: 'announced', promisedUntil: null },
      claim: { ...claimOf('released'), shareCount: 2 },
    },
    'the first read': {
      ...{ kind: 'leased', deadline: later },
      claim: { ...claimOf('read'), shareCount: 2 },
    },
    'the first released': {
      ...{ kind: 'leased', deadline: later },
      claim: { ...claimOf('released'), shareCount: 2 },
    },
    'both ask': { kind: 'leased', claim: claimOf('asked', 'asked'), deadline: later },
    'over, the first read, nothing heard of the second': {
      ...{ kind: 'leased', deadline: now },
      claim: { ...claimOf('read'), shareCount: 2 },
    },
    'over, the first asked, the second released': {
      ...{ kind: 'leased', deadline: now },
      claim: claimOf('asked', 'released'),
    },
    'over, both ask': { kind: 'leased', claim: claimOf('asked', 'asked'), deadline: now },
    'read by the first, released by the second': {
      ...{ kind: 'read', forgetAt: later },
      claim: claimOf('read', 'released'),
    },
  } as Record<string, LeaseState>,
  events: {
    'lease-start': { kind: 'lease-start', remainingMs: 300 },
    timer: { kind: 'timer' },
    ...newsOf(' of the first', 0),
    ...newsOf(' of the second', 1),
  } as Record<string, LeaseEvent>,
  expected: {
    'announced, the first read': {
      'lease-start': 'leased: granted arm',
      'renew of the first': 'announced: completed',
      'read-done of the first': 'announced: late',
      'release of the first': 'announced: late',
      'renew of the second': 'announced: granted',
      'read-done of the second': 'over-early:',
      'release of the second': 'over-early:',
    },
    'announced, the first released': {
      'lease-start': 'leased: granted arm',
      'renew of the first': 'announced: unknown',
      'read-done of the first': 'announced: late',
      'release of the first': 'announced: late',
      'renew of the second': 'announced: granted',
      'read-done of the second': 'over-early:',
      'release of the second': 'over-early:',
    },
    'the first read': {
      timer: 'leased: arm',
      'renew of the first': 'leased: completed',
      'read-done of the first': 'leased: late',
      'release of the first': 'leased: late',
      'renew of the second': 'leased: granted',
      'read-done of the second': 'read: read report-sent arm',
      'release of the second': 'read: read report-sent arm',
    },
    'the first released': {
      timer: 'leased: arm',
      'renew of the first': 'leased: unknown',
      'read-done of the first': 'leased: late',
      'release of the first': 'leased: late',
      'renew of the second': 'leased: granted',
      'read-done of the second': 'read: read report-sent arm',
      'release of the second': 'ended: released report-sent',
    },
    'both ask': {
      timer: 'leased: arm',
      'renew of the first': 'leased: granted',
      'read-done of the first': 'leased:',
      'release of the first': 'leased:',
      'renew of the second': 'leased: granted',
      'read-done of the second': 'leased:',
      'release of the second': 'leased:',
    },
    'over, the first read, nothing heard of the second': {
      timer: 'ended: expired report-sent expect-straggler',
      'renew of the first': 'leased: completed',
      'read-done of the first': 'leased: late',
      'release of the first': 'leased: late',
      'renew of the second': 'ended: unknown expired report-sent expect-straggler',
      'read-done of the second': 'read: read report-sent arm',
      'release of the second': 'read: read report-sent arm',
    },
    'over, the first asked, the second released': {
      timer: 'ended: expired report-sent expect-straggler',
      'renew of the first': 'ended: unknown expired report-sent expect-straggler',
      'read-done of the first': 'read: read report-sent arm',
      'release of the first': 'ended: released report-sent',
      'renew of the second': 'leased: unknown',
      'read-done of the second': 'leased: late',
      'release of the second': 'leased: late',
    },
    'over, both ask': {
      timer: 'ended: expired report-sent expect-straggler expect-straggler',
      'renew of the first': 'ended: unknown expired report-sent expect-straggler expect-straggler',
      'read-done of the first': 'leased:',
      'release of the first': 'leased:',
      'renew of the second': 'ended: unknown expired report-sent expect-straggler expect-straggler',
      'read-done of the second': 'leased:',
      'release of the second': 'leased:',
    },
    'read by the first, released by the second': {
      timer: 'read: arm',
      'renew of the first': 'read: completed',
      'read-done of the first': 'read: late',
      'release of the first': 'read: late',
      'renew of the second': 'read: unknown',
      'read-done of the second': 'read: late',
      'release of the second': 'read: late',
    },
  },
})

test('whoever may still read when a lease is over is polled for, each by its rank', () => {
  const claim = { ...claimOf('asked', 'read'), shareCount: 3 }
  const over: LeaseState = { kind: 'leased', claim, deadline: now }
  const { effects } = stepLease(over, { kind: 'timer' }, now, context)
  const stragglers = effects.filter(({ kind }) => kind === 'expect-straggler')
  expect(stragglers).toEqual([
    { kind: 'expect-straggler', of: { reader, rank: 0 } },
    // Nothing was heard of the third.
    { kind: 'expect-straggler', of: null },
  ])
})
