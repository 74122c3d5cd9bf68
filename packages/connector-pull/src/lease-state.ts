/**
 * One lease on the producer's worker half, as a pure machine. A lease belongs to one load: the first to
 * ask for it, or to report its end, claims it, and nobody else may renew or end it, since freeing the
 * blocks under another reader would give that reader wrong bytes.
 *
 * News from readers may overtake the scheduler half's word that the lease has begun (it travels with the
 * next step, the handoff with the response), so an announced request remembers it. Called by
 * producer-worker.ts, which owns the records, the timers and who a reader is.
 */
import {
  assertNever,
  instantPlus,
  type EngineId,
  type Incarnation,
  type Instant,
} from '@kvferry/connector-api'
import { checked, refuse, type Step } from '@kvferry/connector-api/protocol'
import { leaseTransitions } from './lease-transitions.ts'
import type { LeaseAnswer } from './messages.ts'

/** One load of one life of a consumer. */
export interface Reader {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
  readonly loadId: number
}

/** One life of a consumer. */
export interface Consumer {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
}

export type LeaseState =
  /** Being computed. `promisedUntil`: granted to a reader whose question came before the lease began. */
  | {
      readonly kind: 'announced'
      readonly reader: Reader | null
      readonly promisedUntil: Instant | null
    }
  /** Its reader was done before the lease began. */
  | { readonly kind: 'read-early'; readonly reader: Reader }
  | { readonly kind: 'released-early' }
  | { readonly kind: 'leased'; readonly reader: Reader | null; readonly deadline: Instant }
  /** Over, and remembered for a question of its reader that the notification overtook. */
  | { readonly kind: 'read'; readonly reader: Reader; readonly forgetAt: Instant }
  | { readonly kind: 'ended' }

export type LeaseEvent =
  | { readonly kind: 'lease-start'; readonly remainingMs: number }
  /** The request ended without KV that anyone may read. */
  | { readonly kind: 'withdraw' }
  /** A load asks for it. */
  | { readonly kind: 'renew'; readonly reader: Reader }
  /** A consumer that was offered it, and has not read it, wants it kept. */
  | { readonly kind: 'heartbeat'; readonly consumer: Consumer }
  | { readonly kind: 'read-done'; readonly reader: Reader }
  | { readonly kind: 'release'; readonly reader: Reader }
  | { readonly kind: 'timer' }

export type LeaseEffect =
  | { readonly kind: 'answer'; readonly answer: LeaseAnswer }
  /** `timer` must follow at or after this instant. */
  | { readonly kind: 'arm'; readonly at: Instant }
  /** The blocks are the engine's again. */
  | { readonly kind: 'report-sent' }
  /**
   * The lease is over and a READ of its blocks perhaps not: it needs a polling target to end. `reader` is
   * null when nobody asked for the lease: the question may be lost with its association.
   */
  | { readonly kind: 'expect-straggler'; readonly reader: Reader | null }
  | { readonly kind: 'count'; readonly what: LeaseCount }

export type LeaseCount = 'granted' | 'expired' | 'read' | 'released' | 'late' | 'refused'

export interface LeaseContext {
  readonly leaseDurationMs: number
  readonly completedReadRetentionMs: number
}

type LeaseStep = Step<LeaseState, LeaseEffect>

const machine = 'lease'
const unknown: LeaseAnswer = { kind: 'unknown' }
const reportSent: LeaseEffect = { kind: 'report-sent' }

const count = (what: LeaseCount): LeaseEffect => ({ kind: 'count', what })
const answer = (value: LeaseAnswer): LeaseEffect => ({ kind: 'answer', answer: value })
const stay = (state: LeaseState, ...effects: readonly LeaseEffect[]): LeaseStep => ({
  state,
  effects,
})
const end = (...effects: readonly LeaseEffect[]): LeaseStep => stay({ kind: 'ended' }, ...effects)

const isSame = (left: Reader, right: Reader): boolean =>
  left.engineId === right.engineId &&
  left.incarnation === right.incarnation &&
  left.loadId === right.loadId

/** Whether nobody has claimed it, or a load of this life of this consumer. */
const isOpenTo = (reader: Reader | null, { engineId, incarnation }: Consumer): boolean =>
  reader === null || (reader.engineId === engineId && reader.incarnation === incarnation)

const latest = (left: Instant, right: Instant | null): Instant =>
  right !== null && right > left ? right : left

/** What a reader gets to hear when the lease is not its own. Nothing changes for anybody. */
function deny(state: LeaseState, event: LeaseEvent): LeaseStep {
  return event.kind === 'renew'
    ? stay(state, answer({ kind: 'claimed' }))
    : stay(state, count('refused'))
}

function step(
  state: LeaseState,
  event: LeaseEvent,
  now: Instant,
  context: LeaseContext,
): LeaseStep {
  switch (state.kind) {
    case 'announced':
      return stepAnnounced(state, event, now, context)
    case 'read-early':
    case 'released-early':
      return stepEarly(state, event, now, context)
    case 'leased':
      return stepLeased(state, event, now, context)
    case 'read':
      return stepRead(state, event, now)
    case 'ended':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

function stepAnnounced(
  state: Extract<LeaseState, { kind: 'announced' }>,
  event: LeaseEvent,
  now: Instant,
  { leaseDurationMs }: LeaseContext,
): LeaseStep {
  if ('reader' in event && state.reader !== null && !isSame(state.reader, event.reader)) {
    return deny(state, event)
  }
  switch (event.kind) {
    case 'lease-start': {
      const deadline = latest(instantPlus(now, event.remainingMs), state.promisedUntil)
      const leased = { kind: 'leased', reader: state.reader, deadline } as const
      return stay(leased, count('granted'), { kind: 'arm', at: deadline })
    }
    case 'withdraw':
      return end()
    case 'renew':
      return stay(
        { ...state, reader: event.reader, promisedUntil: instantPlus(now, leaseDurationMs) },
        answer({ kind: 'granted', durationMs: leaseDurationMs }),
      )
    case 'heartbeat': {
      if (!isOpenTo(state.reader, event.consumer)) return stay(state, answer({ kind: 'claimed' }))
      const promisedUntil = latest(instantPlus(now, leaseDurationMs), state.promisedUntil)
      const granted = answer({ kind: 'granted', durationMs: leaseDurationMs })
      return stay({ ...state, promisedUntil }, granted)
    }
    case 'read-done':
      return stay({ kind: 'read-early', reader: event.reader })
    case 'release':
      return stay({ kind: 'released-early' })
    case 'timer':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepEarly(
  state: Extract<LeaseState, { kind: 'read-early' | 'released-early' }>,
  event: LeaseEvent,
  now: Instant,
  context: LeaseContext,
): LeaseStep {
  switch (event.kind) {
    case 'lease-start':
      return state.kind === 'read-early'
        ? becomeRead(state.reader, now, context, count('granted'))
        : end(count('granted'), count('released'), reportSent)
    case 'withdraw':
      return end()
    case 'renew': {
      const isDone = state.kind === 'read-early' && isSame(state.reader, event.reader)
      return stay(state, answer(isDone ? { kind: 'completed' } : unknown))
    }
    case 'heartbeat':
      return stay(state, answer(unknown))
    case 'read-done':
    case 'release':
      return stay(state, count('late'))
    case 'timer':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function becomeRead(
  reader: Reader,
  now: Instant,
  { completedReadRetentionMs }: LeaseContext,
  ...before: readonly LeaseEffect[]
): LeaseStep {
  const forgetAt = instantPlus(now, completedReadRetentionMs)
  return stay({ kind: 'read', reader, forgetAt }, ...before, count('read'), reportSent, {
    kind: 'arm',
    at: forgetAt,
  })
}

function stepLeased(
  state: Extract<LeaseState, { kind: 'leased' }>,
  event: LeaseEvent,
  now: Instant,
  context: LeaseContext,
): LeaseStep {
  if ('reader' in event && state.reader !== null && !isSame(state.reader, event.reader)) {
    return deny(state, event)
  }
  switch (event.kind) {
    case 'renew': {
      // Over, though its timer has not run yet: what is over is never granted again.
      if (now >= state.deadline) return expire(state.reader, answer(unknown))
      const deadline = latest(state.deadline, instantPlus(now, context.leaseDurationMs))
      return stay(
        { kind: 'leased', reader: event.reader, deadline },
        answer({ kind: 'granted', durationMs: context.leaseDurationMs }),
      )
    }
    case 'heartbeat': {
      if (now >= state.deadline) return expire(state.reader, answer(unknown))
      if (!isOpenTo(state.reader, event.consumer)) return stay(state, answer({ kind: 'claimed' }))
      const { leaseDurationMs } = context
      const deadline = latest(state.deadline, instantPlus(now, leaseDurationMs))
      return stay({ ...state, deadline }, answer({ kind: 'granted', durationMs: leaseDurationMs }))
    }
    case 'read-done':
      return becomeRead(event.reader, now, context)
    case 'release':
      return end(count('released'), reportSent)
    case 'timer':
      // Renewals move the deadline, not the timer.
      return now < state.deadline
        ? stay(state, { kind: 'arm', at: state.deadline })
        : expire(state.reader)
    case 'lease-start':
    case 'withdraw':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function expire(reader: Reader | null, ...before: readonly LeaseEffect[]): LeaseStep {
  return end(...before, count('expired'), reportSent, { kind: 'expect-straggler', reader })
}

function stepRead(
  state: Extract<LeaseState, { kind: 'read' }>,
  event: LeaseEvent,
  now: Instant,
): LeaseStep {
  switch (event.kind) {
    case 'renew': {
      const isReader = isSame(state.reader, event.reader)
      return stay(state, answer(isReader ? { kind: 'completed' } : unknown))
    }
    case 'heartbeat':
      return stay(state, answer(unknown))
    case 'read-done':
    case 'release':
      return stay(state, count('late'))
    case 'timer':
      return now < state.forgetAt ? stay(state, { kind: 'arm', at: state.forgetAt }) : end()
    case 'lease-start':
    case 'withdraw':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepLease = checked(machine, leaseTransitions, step)
