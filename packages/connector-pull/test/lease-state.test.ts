import { asEngineId, asIncarnation, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  stepLease,
  type Claim,
  type LeaseEvent,
  type LeaseState,
  type Reader,
  type Share,
} from '../src/lease-state.ts'
import { leaseTransitions } from '../src/lease-transitions.ts'

const now = 1_000 as Instant
const later = 1_001 as Instant
const reader: Reader = {
  engineId: asEngineId('d0'),
  incarnation: asIncarnation('d0-1'),
  loadId: 1,
}
const others: Record<string, Reader> = {
  'another load': { ...reader, loadId: 2 },
  'another life': { ...reader, incarnation: asIncarnation('d0-2') },
  'another engine': { ...reader, engineId: asEngineId('d1') },
}
/** The consumer's only rank that reads from here. */
const alone: Share = { rank: 0, count: 1 }
const claimOf = (...stands: readonly Claim['shares'][number][]): Claim => ({
  reader,
  shareCount: stands.length,
  shares: { ...stands },
})
const asked = claimOf('asked')
const context = { leaseDurationMs: 500, completedReadRetentionMs: 50 }

const states: Record<string, LeaseState> = {
  announced: { kind: 'announced', claim: null, promisedUntil: null },
  'announced, claimed': { kind: 'announced', claim: asked, promisedUntil: later },
  'read early': { kind: 'over-early', claim: claimOf('read') },
  'released early': { kind: 'over-early', claim: claimOf('released') },
  leased: { kind: 'leased', claim: null, deadline: later },
  'leased, claimed': { kind: 'leased', claim: asked, deadline: later },
  'leased, over': { kind: 'leased', claim: null, deadline: now },
  'claimed, over': { kind: 'leased', claim: asked, deadline: now },
  'another rank has read': {
    ...{ kind: 'leased', deadline: later },
    claim: { reader, shareCount: 2, shares: { 1: 'read' } },
  },
  read: { kind: 'read', claim: claimOf('read'), forgetAt: later },
  'read, to be forgotten': { kind: 'read', claim: claimOf('read'), forgetAt: now },
  ended: { kind: 'ended' },
}

const byReader = (from: string, who: Reader): Record<string, LeaseEvent> => ({
  [`renew${from}`]: { kind: 'renew', reader: who, share: alone },
  [`read-done${from}`]: { kind: 'read-done', reader: who, share: alone },
  [`release${from}`]: { kind: 'release', reader: who, share: alone },
  [`heartbeat${from}`]: { kind: 'heartbeat', consumer: who },
})
const events: Record<string, LeaseEvent> = {
  'lease-start': { kind: 'lease-start', remainingMs: 300 },
  withdraw: { kind: 'withdraw' },
  timer: { kind: 'timer' },
  undelivered: { kind: 'undelivered' },
  ...byReader('', reader),
  ...byReader(' by another', others['another engine']!),
}

const denied = (state: string) => ({
  'renew by another': `${state}: claimed`,
  'heartbeat by another': `${state}: claimed`,
  'read-done by another': `${state}: refused`,
  'release by another': `${state}: refused`,
})
const over = (state: string) => ({
  'renew by another': `${state}: unknown`,
  heartbeat: `${state}: unknown`,
  'heartbeat by another': `${state}: unknown`,
  'read-done by another': `${state}: late`,
  'release by another': `${state}: late`,
  'read-done': `${state}: late`,
  release: `${state}: late`,
})

testMachine('lease', {
  step: (state, event, at) => stepLease(state, event, at, context),
  now,
  show: (effect) => {
    if (effect.kind === 'answer') return effect.answer.kind
    return effect.kind === 'count' ? effect.what : effect.kind
  },
  table: leaseTransitions as never,
  states,
  events,
  expected: {
    announced: {
      'lease-start': 'leased: granted arm',
      withdraw: 'ended:',
      renew: 'announced: granted',
      heartbeat: 'announced: granted',
      'read-done': 'over-early:',
      release: 'over-early:',
      'renew by another': 'announced: granted',
      'heartbeat by another': 'announced: granted',
      'read-done by another': 'over-early:',
      'release by another': 'over-early:',
    },
    'announced, claimed': {
      'lease-start': 'leased: granted arm',
      withdraw: 'ended:',
      renew: 'announced: granted',
      heartbeat: 'announced: granted',
      'read-done': 'over-early:',
      release: 'over-early:',
      ...denied('announced'),
    },
    'read early': {
      'lease-start': 'read: granted read report-sent arm',
      withdraw: 'ended:',
      renew: 'over-early: completed',
      ...over('over-early'),
    },
    'released early': {
      'lease-start': 'ended: granted released report-sent',
      withdraw: 'ended:',
      renew: 'over-early: unknown',
      ...over('over-early'),
    },
    leased: {
      undelivered: 'ended: undelivered report-sent expect-straggler',
      timer: 'leased: arm',
      renew: 'leased: granted',
      heartbeat: 'leased: granted',
      'read-done': 'read: read report-sent arm',
      release: 'ended: released report-sent',
      'renew by another': 'leased: granted',
      'heartbeat by another': 'leased: granted',
      'read-done by another': 'read: read report-sent arm',
      'release by another': 'ended: released report-sent',
    },
    'leased, claimed': {
      undelivered: 'leased:',
      timer: 'leased: arm',
      renew: 'leased: granted',
      heartbeat: 'leased: granted',
      'read-done': 'read: read report-sent arm',
      release: 'ended: released report-sent',
      ...denied('leased'),
    },
    'leased, over': {
      undelivered: 'ended: undelivered report-sent expect-straggler',
      timer: 'ended: expired report-sent expect-straggler',
      renew: 'ended: unknown expired report-sent expect-straggler',
      heartbeat: 'ended: unknown expired report-sent expect-straggler',
      'heartbeat by another': 'ended: unknown expired report-sent expect-straggler',
      'read-done': 'read: read report-sent arm',
      release: 'ended: released report-sent',
      'renew by another': 'ended: unknown expired report-sent expect-straggler',
      'read-done by another': 'read: read report-sent arm',
      'release by another': 'ended: released report-sent',
    },
    'claimed, over': {
      undelivered: 'leased:',
      timer: 'ended: expired report-sent expect-straggler',
      renew: 'ended: unknown expired report-sent expect-straggler',
      heartbeat: 'ended: unknown expired report-sent expect-straggler',
      // The blocks are still there: the READ saw nothing else.
      'read-done': 'read: read report-sent arm',
      release: 'ended: released report-sent',
      ...denied('leased'),
      'heartbeat by another': 'ended: unknown expired report-sent expect-straggler',
    },
    'another rank has read': {
      undelivered: 'leased:',
      timer: 'leased: arm',
      renew: 'leased: granted',
      heartbeat: 'leased: granted',
      'read-done': 'read: read report-sent arm',
      release: 'read: read report-sent arm',
      ...denied('leased'),
    },
    read: {
      timer: 'read: arm',
      undelivered: 'read:',
      renew: 'read: completed',
      ...over('read'),
    },
    'read, to be forgotten': {
      undelivered: 'read:',
      timer: 'ended:',
      renew: 'read: completed',
      ...over('read'),
    },
    ended: {},
  },
})

test.each(Object.entries(others))('%s of the reader is somebody else', (_, other) => {
  const { effects, state } = stepLease(
    states['leased, claimed']!,
    { kind: 'renew', reader: other, share: alone },
    now,
    context,
  )
  expect(effects).toEqual([{ kind: 'answer', answer: { kind: 'claimed' } }])
  expect(state).toBe(states['leased, claimed'])
})

test('a heartbeat extends from now, never shortens, and claims nothing', () => {
  const consumer = { engineId: reader.engineId, incarnation: reader.incarnation }
  const beat = { kind: 'heartbeat', consumer } as const
  const kept = stepLease(states['leased']!, beat, now, context).state
  expect(kept).toEqual({ kind: 'leased', claim: null, deadline: now + 500 })
  const long: LeaseState = { kind: 'leased', claim: asked, deadline: (now + 900) as Instant }
  expect(stepLease(long, beat, now, context).state).toEqual(long)
  // Another load of the consumer that has it is not meant: heartbeats are the whole consumer's.
  const other = { kind: 'heartbeat', consumer: others['another load']! } as const
  expect(stepLease(long, other, now, context).effects).toMatchObject([
    { answer: { kind: 'granted' } },
  ])
  const early = stepLease(states['announced']!, beat, now, context).state
  const begin = { kind: 'lease-start', remainingMs: 300 } as const
  expect(stepLease(early, begin, now, context).state).toEqual({
    kind: 'leased',
    claim: null,
    deadline: now + 500,
  })
})

test('a renewal never shortens a lease, and one before its start counts', () => {
  const promised = stepLease(
    states['announced']!,
    { kind: 'renew', reader, share: alone },
    now,
    context,
  ).state
  const begin = { kind: 'lease-start', remainingMs: 300 } as const
  const leased = stepLease(promised, begin, now, context).state
  expect(leased).toEqual({ kind: 'leased', claim: asked, deadline: now + 500 })
  const long: LeaseState = { kind: 'leased', claim: asked, deadline: (now + 900) as Instant }
  const renewed = stepLease(long, { kind: 'renew', reader, share: alone }, now, context).state
  expect(renewed).toEqual(long)
})
