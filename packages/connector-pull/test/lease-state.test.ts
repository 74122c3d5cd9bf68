import { asEngineId, asIncarnation, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import { stepLease, type LeaseEvent, type LeaseState, type Reader } from '../src/lease-state.ts'
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
const context = { leaseDurationMs: 500, completedReadRetentionMs: 50 }

const states: Record<string, LeaseState> = {
  announced: { kind: 'announced', reader: null, promisedUntil: null },
  'announced, claimed': { kind: 'announced', reader, promisedUntil: later },
  'read-early': { kind: 'read-early', reader },
  'released-early': { kind: 'released-early' },
  leased: { kind: 'leased', reader: null, deadline: later },
  'leased, claimed': { kind: 'leased', reader, deadline: later },
  'leased, over': { kind: 'leased', reader: null, deadline: now },
  'claimed, over': { kind: 'leased', reader, deadline: now },
  read: { kind: 'read', reader, forgetAt: later },
  'read, to be forgotten': { kind: 'read', reader, forgetAt: now },
  ended: { kind: 'ended' },
}

const byReader = (from: string, who: Reader): Record<string, LeaseEvent> => ({
  [`renew${from}`]: { kind: 'renew', reader: who },
  [`heartbeat${from}`]: { kind: 'heartbeat', consumer: who },
  [`read-done${from}`]: { kind: 'read-done', reader: who },
  [`release${from}`]: { kind: 'release', reader: who },
})
const events: Record<string, LeaseEvent> = {
  'lease-start': { kind: 'lease-start', remainingMs: 300 },
  withdraw: { kind: 'withdraw' },
  timer: { kind: 'timer' },
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
  table: leaseTransitions as never,
  states,
  events,
  show: (effect) => {
    if (effect.kind === 'answer') return effect.answer.kind
    return effect.kind === 'count' ? effect.what : effect.kind
  },
  expected: {
    announced: {
      'lease-start': 'leased: granted arm',
      withdraw: 'ended:',
      renew: 'announced: granted',
      heartbeat: 'announced: granted',
      'read-done': 'read-early:',
      release: 'released-early:',
      'renew by another': 'announced: granted',
      'heartbeat by another': 'announced: granted',
      'read-done by another': 'read-early:',
      'release by another': 'released-early:',
    },
    'announced, claimed': {
      'lease-start': 'leased: granted arm',
      withdraw: 'ended:',
      renew: 'announced: granted',
      heartbeat: 'announced: granted',
      'read-done': 'read-early:',
      release: 'released-early:',
      ...denied('announced'),
    },
    'read-early': {
      'lease-start': 'read: granted read report-sent arm',
      withdraw: 'ended:',
      renew: 'read-early: completed',
      ...over('read-early'),
    },
    'released-early': {
      'lease-start': 'ended: granted released report-sent',
      withdraw: 'ended:',
      renew: 'released-early: unknown',
      ...over('released-early'),
    },
    leased: {
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
      timer: 'leased: arm',
      renew: 'leased: granted',
      heartbeat: 'leased: granted',
      'read-done': 'read: read report-sent arm',
      release: 'ended: released report-sent',
      ...denied('leased'),
    },
    'leased, over': {
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
      timer: 'ended: expired report-sent expect-straggler',
      renew: 'ended: unknown expired report-sent expect-straggler',
      heartbeat: 'ended: unknown expired report-sent expect-straggler',
      // The blocks are still there: the READ saw nothing else.
      'read-done': 'read: read report-sent arm',
      release: 'ended: released report-sent',
      ...denied('leased'),
      'heartbeat by another': 'ended: unknown expired report-sent expect-straggler',
    },
    read: { timer: 'read: arm', renew: 'read: completed', ...over('read') },
    'read, to be forgotten': {
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
    { kind: 'renew', reader: other },
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
  expect(kept).toEqual({ kind: 'leased', reader: null, deadline: now + 500 })
  const long: LeaseState = { kind: 'leased', reader, deadline: (now + 900) as Instant }
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
    reader: null,
    deadline: now + 500,
  })
})

test('a renewal never shortens a lease, and one before its start counts', () => {
  const promised = stepLease(states['announced']!, { kind: 'renew', reader }, now, context).state
  const begin = { kind: 'lease-start', remainingMs: 300 } as const
  const leased = stepLease(promised, begin, now, context).state
  expect(leased).toEqual({ kind: 'leased', reader, deadline: now + 500 })
  const long: LeaseState = { kind: 'leased', reader, deadline: (now + 900) as Instant }
  const renewed = stepLease(long, { kind: 'renew', reader }, now, context).state
  expect(renewed).toEqual(long)
})
