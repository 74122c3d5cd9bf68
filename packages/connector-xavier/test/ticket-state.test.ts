import { asEngineId, asIncarnation, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  isHeld,
  stepTicket,
  type Claimant,
  type TicketContext,
  type TicketEvent,
  type TicketState,
} from '../src/ticket-state.ts'
import { ticketTransitions } from '../src/ticket-transitions.ts'

const now = 1_000 as Instant
const at = (ms: number): Instant => ms as Instant
const life = (engine: string, incarnation = 'one'): Claimant => ({
  engineId: asEngineId(engine),
  incarnation: asIncarnation(incarnation),
})
const [owner, stranger] = [life('d0'), life('d1')]
const times = { unclaimedMs: 120, claimedMs: 600 }

const announced = {
  kind: 'announced',
  claimant: null,
  isReading: false,
  isReleased: false,
  isGone: false,
} as const
const states: Readonly<Record<string, TicketState>> = {
  announced,
  'announced, claimed early': { ...announced, claimant: owner },
  'announced, claimant gone': { ...announced, claimant: owner, isGone: true },
  'announced, read early': { ...announced, claimant: owner, isReading: true },
  'announced, released early': { ...announced, isReleased: true },
  unclaimed: { kind: 'unclaimed', deadline: at(1_050) },
  'unclaimed, over': { kind: 'unclaimed', deadline: now },
  claimed: { kind: 'claimed', claimant: owner, deadline: at(1_500) },
  'claimed, over': { kind: 'claimed', claimant: owner, deadline: now },
  reading: { kind: 'reading', claimant: owner },
  retaining: { kind: 'retaining' },
  finished: { kind: 'finished' },
}

const events: Readonly<Record<string, TicketEvent>> = {
  register: { kind: 'register' },
  withdraw: { kind: 'withdraw' },
  claim: { kind: 'claim', claimant: owner },
  'claim by another': { kind: 'claim', claimant: stranger },
  'read-start': { kind: 'read-start', claimant: owner },
  'read-start by another': { kind: 'read-start', claimant: stranger },
  'read-end': { kind: 'read-end' },
  release: { kind: 'release', claimant: owner },
  'release by another': { kind: 'release', claimant: stranger },
  'claimant-gone': { kind: 'claimant-gone', claimant: owner },
  'another gone': { kind: 'claimant-gone', claimant: stranger },
  undelivered: { kind: 'undelivered' },
  'retention-end': { kind: 'retention-end' },
  timer: { kind: 'timer' },
  close: { kind: 'close' },
}

const finished = 'finished: finished report-sent'
const expired = 'finished: expired finished report-sent'

/** Where it doesn't matter whether history is on. */
const always: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  announced: {
    register: 'unclaimed: registered arm-1120',
    claim: 'announced: granted',
    'claim by another': 'announced: granted',
    'read-start': 'announced:',
    'read-start by another': 'announced:',
    release: 'announced:',
    'release by another': 'announced:',
  },
  'announced, claimed early': {
    register: 'claimed: registered arm-1600',
    claim: 'announced: granted',
    'claim by another': 'announced: denied refused',
    'read-start': 'announced:',
    release: 'announced:',
    'release by another': 'announced: refused',
  },
  'announced, claimant gone': {
    register: 'claimed: registered arm-1120',
    claim: 'announced: granted',
    'claim by another': 'announced: denied refused',
    'read-start': 'announced:',
    release: 'announced:',
    'release by another': 'announced: refused',
  },
  'announced, read early': {
    register: 'reading: registered',
    claim: 'announced: granted',
    'claim by another': 'announced: denied refused',
    'read-start': 'announced:',
    release: 'announced:',
    'release by another': 'announced: refused',
  },
  'announced, released early': {
    claim: 'announced: granted',
    'claim by another': 'announced: granted',
    'read-start': 'announced:',
    'read-start by another': 'announced:',
    release: 'announced:',
    'release by another': 'announced:',
  },
  unclaimed: {
    claim: 'claimed: granted',
    'claim by another': 'claimed: granted',
    timer: 'unclaimed: arm-1050',
  },
  'unclaimed, over': {
    claim: 'finished: denied expired finished report-sent',
    'claim by another': 'finished: denied expired finished report-sent',
    timer: expired,
  },
  claimed: {
    claim: 'claimed: granted',
    'claim by another': 'claimed: denied refused',
    'read-start': 'reading:',
    'release by another': 'claimed: refused',
    timer: 'claimed: arm-1500',
    'claimant-gone': 'claimed: arm-1120',
    'another gone': 'claimed:',
    undelivered: 'claimed:',
    close: finished,
  },
  'claimed, over': {
    claim: 'finished: denied expired finished report-sent',
    'claim by another': 'finished: denied expired finished report-sent',
    'read-start': 'reading:',
    'release by another': 'claimed: refused',
    timer: expired,
    'claimant-gone': 'claimed:',
    'another gone': 'claimed:',
    undelivered: 'claimed:',
    close: finished,
  },
  reading: {
    claim: 'reading: granted',
    'claim by another': 'reading: denied refused',
    release: 'reading:',
    'release by another': 'reading:',
    'claimant-gone': 'reading:',
    'another gone': 'reading:',
    undelivered: 'reading:',
    timer: 'reading:',
    close: 'reading:',
  },
  retaining: {
    claim: 'retaining: denied',
    'claim by another': 'retaining: denied',
    release: 'retaining:',
    'release by another': 'retaining:',
    'claimant-gone': 'retaining:',
    'another gone': 'retaining:',
    undelivered: 'retaining:',
    'retention-end': finished,
    timer: 'retaining:',
    close: 'retaining:',
  },
}
const whileAnnounced = {
  withdraw: 'finished:',
  'read-end': 'announced:',
  'claimant-gone': 'announced:',
  'another gone': 'announced:',
  close: 'finished:',
}
const whileUnclaimed = {
  'read-start': 'reading:',
  'read-start by another': 'reading:',
  'claimant-gone': 'unclaimed:',
  'another gone': 'unclaimed:',
  close: finished,
}

/** What becomes of blocks that nobody reads any more. */
const whenReleased = (
  outcome: string,
): Readonly<Record<string, Readonly<Record<string, string>>>> => ({
  'announced, released early': { register: outcome.replace(': ', ': registered ') },
  unclaimed: {
    ...{ release: outcome, 'release by another': outcome },
    undelivered: outcome.replace(': ', ': undelivered '),
  },
  'unclaimed, over': {
    ...{ release: outcome, 'release by another': outcome },
    undelivered: outcome.replace(': ', ': undelivered '),
  },
  claimed: { release: outcome },
  'claimed, over': { release: outcome },
  reading: { 'read-end': outcome },
})

const circumstances = {
  'history off': { isRetained: false, released: whenReleased(finished) },
  'history on': { isRetained: true, released: whenReleased('retaining: retain') },
}

interface Situation {
  readonly kind: TicketState['kind']
  readonly state: TicketState
  readonly context: TicketContext
}
const each = <T>(make: (name: string, what: keyof typeof circumstances) => T): Record<string, T> =>
  Object.fromEntries(
    (Object.keys(circumstances) as (keyof typeof circumstances)[]).flatMap((what) =>
      Object.keys(states).map((name): [string, T] => [`${name}, ${what}`, make(name, what)]),
    ),
  )

testMachine('ticket', {
  step: ({ state, context }: Situation, event: TicketEvent) => {
    const { state: next, effects } = stepTicket(state, event, now, context)
    return { state: { kind: next.kind, state: next, context }, effects }
  },
  now,
  table: ticketTransitions,
  states: each((name, what) => {
    const state = states[name]!
    const { isRetained } = circumstances[what]
    return { kind: state.kind, state, context: { ...times, isRetained } }
  }),
  events,
  show: (effect) => {
    switch (effect.kind) {
      case 'arm':
        return `arm-${effect.at}`
      case 'answer':
        return effect.isGranted ? 'granted' : 'denied'
      case 'count':
        return effect.what
      case 'retain':
      case 'report-sent':
        return effect.kind
    }
  },
  expected: each((name, what) => ({
    ...(name.startsWith('announced') ? whileAnnounced : {}),
    ...(name.startsWith('unclaimed') ? whileUnclaimed : {}),
    ...always[name],
    ...circumstances[what].released[name],
  })),
})

test('the engine keeps the blocks from the registration to the report', () => {
  const held = Object.entries(states).filter(([, state]) => isHeld(state))
  const names = held.map(([name]) => name)
  expect(names).toEqual(Object.keys(states).filter((name) => !/^(announced|finished)/.test(name)))
})
