/** The ticket machine over time, and whose a ticket is. */
import { asEngineId, asIncarnation, type Instant } from '@kvferry/connector-api'
import { describe, expect, test } from 'vitest'
import {
  claimantOf,
  stepTicket,
  type Claimant,
  type TicketContext,
  type TicketEvent,
  type TicketState,
} from '../src/ticket-state.ts'

const at = (ms: number): Instant => ms as Instant
const now = at(1_000)
const life = (engine: string, incarnation = 'one'): Claimant => ({
  engineId: asEngineId(engine),
  incarnation: asIncarnation(incarnation),
})
const [owner, stranger] = [life('d0'), life('d1')]
const announced: TicketState = {
  ...{ kind: 'announced', claimant: null, isReading: false, isReleased: false, isGone: false },
}

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

  test('one that is gone before the ticket is registered, too; its life may come back', () => {
    const gone: TicketEvent = { kind: 'claimant-gone', claimant: owner }
    const early = [
      [0, claim],
      [1_000, gone],
    ] as const
    const left = [...early, [10_000, register]] as const
    expect(claimantOf(after(...left))).toBe(owner)
    expect(after(...left, [129_999, timer]).kind).toBe('claimed')
    expect(after(...left, [130_000, timer]).kind).toBe('finished')
    const back = [...early, [2_000, claim], [10_000, register]] as const
    expect(after(...back, [609_999, timer]).kind).toBe('claimed')
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
