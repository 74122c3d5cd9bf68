/**
 * One ticket on the producer, as a pure machine: the right of one consumer to have the KV of one request. It
 * belongs to the first life of a consumer that claims it (K1). A deadline ends it while nobody reads, the
 * end of the read otherwise: blocks that a WRITE reads are never given back. Called by ticket-table.ts.
 */
import {
  assertNever,
  instantPlus,
  type EngineId,
  type Incarnation,
  type Instant,
} from '@kvferry/connector-api'
import { checked, refuse, type Step } from '@kvferry/connector-api/protocol'
import { ticketTransitions } from './ticket-transitions.ts'

/** One life of a consumer. */
export interface Claimant {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
}

export type TicketState =
  /**
   * Its request is being computed; the worker half knows it in case a consumer is faster than the step that
   * registers it. `isReading`, `isReleased`, `isGone`: what that consumer did meanwhile.
   */
  | {
      readonly kind: 'announced'
      readonly claimant: Claimant | null
      readonly isReading: boolean
      readonly isReleased: boolean
      /** Its association ended, and it has not spoken since. */
      readonly isGone: boolean
    }
  | { readonly kind: 'unclaimed'; readonly deadline: Instant }
  | { readonly kind: 'claimed'; readonly claimant: Claimant; readonly deadline: Instant }
  /** A load of the claimant is open: WRITEs may read the blocks. */
  | { readonly kind: 'reading'; readonly claimant: Claimant }
  /** Nobody reads any more; history copies the blocks. */
  | { readonly kind: 'retaining' }
  | { readonly kind: 'finished' }

export type TicketEvent =
  | { readonly kind: 'register' }
  | { readonly kind: 'withdraw' }
  | { readonly kind: 'claim'; readonly claimant: Claimant }
  /** The claimant's load was taken on. */
  | { readonly kind: 'read-start'; readonly claimant: Claimant }
  /** That load has ended, in whatever way: nothing of it reads or will. */
  | { readonly kind: 'read-end' }
  /** A consumer needs nothing of it. */
  | { readonly kind: 'release'; readonly claimant: Claimant }
  /** The association with that consumer ended. */
  | { readonly kind: 'claimant-gone'; readonly claimant: Claimant }
  /** The answer with it reached nobody. */
  | { readonly kind: 'undelivered' }
  | { readonly kind: 'retention-end' }
  | { readonly kind: 'timer' }
  | { readonly kind: 'close' }

export type TicketEffect =
  | { readonly kind: 'answer'; readonly isGranted: boolean }
  /** `timer` must follow at or after this instant. */
  | { readonly kind: 'arm'; readonly at: Instant }
  /** Offer the blocks to history; `retention-end` must follow. */
  | { readonly kind: 'retain' }
  /** The blocks are the engine's again. */
  | { readonly kind: 'report-sent' }
  | { readonly kind: 'count'; readonly what: TicketCount }

export type TicketCount = 'registered' | 'expired' | 'finished' | 'undelivered' | 'refused'

export interface TicketContext {
  readonly unclaimedMs: number
  readonly claimedMs: number
  /** History takes what is released. */
  readonly isRetained: boolean
}

type TicketStep = Step<TicketState, TicketEffect>

const machine = 'ticket'
const stay = (state: TicketState, ...effects: readonly TicketEffect[]): TicketStep => ({
  state,
  effects,
})
const answer = (isGranted: boolean): TicketEffect => ({ kind: 'answer', isGranted })
const count = (what: TicketCount): TicketEffect => ({ kind: 'count', what })

const finish = (...before: readonly TicketEffect[]): TicketStep =>
  stay({ kind: 'finished' }, ...before, count('finished'), { kind: 'report-sent' })

/** Nobody needs the blocks for reading any more. */
const letGo = ({ isRetained }: TicketContext, ...before: readonly TicketEffect[]): TicketStep =>
  isRetained ? stay({ kind: 'retaining' }, ...before, { kind: 'retain' }) : finish(...before)

export const isSameLife = (one: Claimant, other: Claimant): boolean =>
  one.engineId === other.engineId && one.incarnation === other.incarnation

function step(
  state: TicketState,
  event: TicketEvent,
  now: Instant,
  context: TicketContext,
): TicketStep {
  switch (state.kind) {
    case 'announced':
      return stepAnnounced(state, event, now, context)
    case 'unclaimed':
    case 'claimed':
      return stepIdle(state, event, now, context)
    case 'reading':
      return stepReading(state, event, context)
    case 'retaining':
      return stepRetaining(state, event)
    case 'finished':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

function stepAnnounced(
  state: Extract<TicketState, { kind: 'announced' }>,
  event: TicketEvent,
  now: Instant,
  context: TicketContext,
): TicketStep {
  const { claimant } = state
  const isOthers = claimant !== null && 'claimant' in event && !isSameLife(claimant, event.claimant)
  switch (event.kind) {
    case 'register':
      return stepRegister(state, now, context)
    case 'withdraw':
    case 'close':
      // The engine keeps nothing of it: there is nothing to report.
      return stay({ kind: 'finished' })
    case 'claim':
      if (isOthers) return stay(state, answer(false), count('refused'))
      return stay({ ...state, claimant: event.claimant, isGone: false }, answer(true))
    case 'read-start':
      if (isOthers) return refuse(machine, state, event)
      return stay({ ...state, claimant: event.claimant, isReading: true, isGone: false })
    case 'read-end':
      return stay({ ...state, isReading: false, isReleased: true })
    case 'release':
      return isOthers ? stay(state, count('refused')) : stay({ ...state, isReleased: true })
    case 'claimant-gone':
      // It keeps the ticket: the same life may come back.
      return stay(claimant === null || isOthers ? state : { ...state, isGone: true })
    case 'undelivered':
    case 'retention-end':
    case 'timer':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepRegister(
  { claimant, isReading, isReleased, isGone }: Extract<TicketState, { kind: 'announced' }>,
  now: Instant,
  context: TicketContext,
): TicketStep {
  const registered = count('registered')
  if (claimant !== null && isReading) return stay({ kind: 'reading', claimant }, registered)
  if (isReleased) return letGo(context, registered)
  const isAwaited = claimant !== null && !isGone
  const deadline = instantPlus(now, isAwaited ? context.claimedMs : context.unclaimedMs)
  const state: TicketState =
    claimant === null ? { kind: 'unclaimed', deadline } : { kind: 'claimed', claimant, deadline }
  return stay(state, registered, { kind: 'arm', at: deadline })
}

function stepIdle(
  state: Extract<TicketState, { kind: 'unclaimed' | 'claimed' }>,
  event: TicketEvent,
  now: Instant,
  context: TicketContext,
): TicketStep {
  const isOthers =
    state.kind === 'claimed' && 'claimant' in event && !isSameLife(state.claimant, event.claimant)
  switch (event.kind) {
    case 'claim': {
      // Over, though its timer has not run yet: what is over is never granted again.
      if (now >= state.deadline) return expire(answer(false))
      if (isOthers) return stay(state, answer(false), count('refused'))
      const deadline = instantPlus(now, context.claimedMs)
      // The timer of before finds the later deadline.
      return stay({ kind: 'claimed', claimant: event.claimant, deadline }, answer(true))
    }
    case 'read-start':
      if (isOthers) return refuse(machine, state, event)
      return stay({ kind: 'reading', claimant: event.claimant })
    case 'release':
      return isOthers ? stay(state, count('refused')) : letGo(context)
    case 'claimant-gone': {
      if (state.kind === 'unclaimed' || isOthers) return stay(state)
      const soon = instantPlus(now, context.unclaimedMs)
      if (soon >= state.deadline) return stay(state)
      return stay({ ...state, deadline: soon }, { kind: 'arm', at: soon })
    }
    case 'undelivered':
      // Who has claimed it has it from the answer that was thought lost.
      return state.kind === 'claimed' ? stay(state) : letGo(context, count('undelivered'))
    case 'timer':
      return now < state.deadline ? stay(state, { kind: 'arm', at: state.deadline }) : expire()
    case 'close':
      // What was handed over stays the engine's to free: it is closing, too.
      return finish()
    case 'register':
    case 'withdraw':
    case 'read-end':
    case 'retention-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** An expired handoff isn't offered to history. */
const expire = (...before: readonly TicketEffect[]): TicketStep =>
  finish(...before, count('expired'))

function stepReading(
  state: Extract<TicketState, { kind: 'reading' }>,
  event: TicketEvent,
  context: TicketContext,
): TicketStep {
  switch (event.kind) {
    case 'claim': {
      const isGranted = isSameLife(state.claimant, event.claimant)
      return stay(state, answer(isGranted), ...(isGranted ? [] : [count('refused')]))
    }
    case 'read-end':
      return letGo(context)
    // A read is never cut off: its end lets the blocks go, whatever was said meanwhile.
    case 'timer':
    case 'release':
    case 'claimant-gone':
    case 'undelivered':
    case 'close':
      return stay(state)
    case 'register':
    case 'withdraw':
    case 'read-start':
    case 'retention-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepRetaining(
  state: Extract<TicketState, { kind: 'retaining' }>,
  event: TicketEvent,
): TicketStep {
  switch (event.kind) {
    case 'retention-end':
      return finish()
    case 'claim':
      return stay(state, answer(false))
    case 'timer':
    case 'release':
    case 'claimant-gone':
    case 'undelivered':
    case 'close':
      return stay(state)
    case 'register':
    case 'withdraw':
    case 'read-start':
    case 'read-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepTicket = checked(machine, ticketTransitions, step)

/** Whose it is; null while it is nobody's. */
export const claimantOf = (state: TicketState): Claimant | null =>
  'claimant' in state ? state.claimant : null

/** The engine keeps the blocks until the report. */
export const isHeld = ({ kind }: TicketState): boolean =>
  kind !== 'announced' && kind !== 'finished'
