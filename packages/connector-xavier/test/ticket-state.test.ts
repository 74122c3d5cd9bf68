import { asEngineId, asIncarnation, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { describe, expect, test } from 'vitest'
import {
  claimantOf,
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
} as const
const states: Readonly<Record<string, TicketState>> = {
  announced,
  'announced, claimed early': { ...announced, claimant: owner },
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
    close: finished,
  },
  reading: {
    claim: 'reading: granted',
    'claim by another': 'reading: denied refused',
    release: 'reading:',
    'release by another': 'reading:',
    'claimant-gone': 'reading:',
    'another gone': 'reading:',
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
  unclaimed: { release: outcome, 'release by another': outcome },
  'unclaimed, over': { release: outcome, 'release by another': outcome },
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

const off: TicketContext = { unclaimedMs: 120_000, claimedMs: 600_000, isRetained: false }

/** The state after these events, each at its own time. */
function after(...events_: readonly (readonly [ms: number, event: TicketEvent])[]): TicketState {
  let state: TicketState = announced
  for (const [ms, event] of events_) state = stepTicket(state, event, at(ms), off).state
  return state
}
const claim: TicketEvent = { kind: 'claim', claimant: owner }
const register: TicketEvent = { kind: 'register' }
const timer: TicketEvent = { kind: 'timer' }

describe('times', () => {
  test('RT-02: nobody claims for 120 s, and it is over', () => {
    expect(after([0, register], [119_999, timer]).kind).toBe('unclaimed')
    expect(after([0, register], [120_000, timer]).kind).toBe('finished')
  })

  test('RT-19: claimed, never read, silent for 600 s: reclaimed', () => {
    expect(after([0, register], [0, claim], [599_999, timer]).kind).toBe('claimed')
    expect(after([0, register], [0, claim], [600_000, timer]).kind).toBe('finished')
  })

  test('RT-20: a read outlives every deadline', () => {
    const reading = [
      [0, register],
      [0, claim],
      [1, { kind: 'read-start', claimant: owner }],
    ] as const
    expect(after(...reading, [1e9, timer]).kind).toBe('reading')
  })

  test('RT-21: a claim again at 590 s: alive at 1,180 s, over at 1,191 s', () => {
    const claimed = [
      [0, register],
      [0, claim],
      [590_000, claim],
    ] as const
    expect(after(...claimed, [1_180_000, timer]).kind).toBe('claimed')
    expect(after(...claimed, [1_191_000, timer]).kind).toBe('finished')
  })

  test('what is over is not granted again, whenever its timer runs', () => {
    const { state, effects } = stepTicket(
      { kind: 'claimed', claimant: owner, deadline: at(10) },
      claim,
      at(10),
      off,
    )
    expect(state.kind).toBe('finished')
    expect(effects).toContainEqual({ kind: 'answer', isGranted: false })
  })

  test('a consumer that is gone keeps its claim for as long as nobody’s', () => {
    const gone: TicketEvent = { kind: 'claimant-gone', claimant: owner }
    const left = [
      [0, register],
      [0, claim],
      [10_000, gone],
    ] as const
    expect(after(...left, [129_999, timer]).kind).toBe('claimed')
    expect(after(...left, [130_000, timer]).kind).toBe('finished')
    expect(after(...left, [20_000, claim], [619_999, timer]).kind).toBe('claimed')
  })
})

test('K1: it is the first claimant’s; a new life of the same engine is another one', () => {
  const claimed = after([0, register], [0, claim])
  expect(claimantOf(claimed)).toBe(owner)
  for (const other of [stranger, life('d0', 'two')]) {
    const { state, effects } = stepTicket(claimed, { kind: 'claim', claimant: other }, now, off)
    expect(state).toBe(claimed)
    expect(effects).toContainEqual({ kind: 'answer', isGranted: false })
  }
  expect(claimantOf({ kind: 'retaining' })).toBeNull()
})

test('RT-06: a release by anyone but the claimant is ignored', () => {
  const claimed = after([0, register], [0, claim])
  const release = (claimant: Claimant): TicketEvent => ({ kind: 'release', claimant })
  expect(stepTicket(claimed, release(stranger), now, off).state).toBe(claimed)
  expect(stepTicket(claimed, release(owner), now, off).state.kind).toBe('finished')
})

test('the engine keeps the blocks from the registration to the report', () => {
  const held = Object.entries(states).filter(([, state]) => isHeld(state))
  const names = held.map(([name]) => name)
  expect(names).toEqual(Object.keys(states).filter((name) => !/^(announced|finished)/.test(name)))
})
