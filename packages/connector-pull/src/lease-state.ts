/**
 * One lease on the producer's worker half, as a pure machine. A lease belongs to one load: the first to
 * ask for it, or to report its end, claims it, and nobody else may renew or end it, since freeing the
 * blocks under another reader would give that reader wrong bytes. Each rank of the consumer that has some of
 * this rank's heads reads its own share; the lease is over when each has read its share, or given it back.
 *
 * News from readers may overtake the scheduler half's word that the lease has begun (it travels with the
 * next step, the handoff with the response), so an announced request remembers it. Called by
 * producer-worker.ts, which owns the records, the timers and who a reader is.
 */
import { assertNever, instantPlus, type Instant } from '@kvferry/connector-api'
import { checked, refuse, type Step } from '@kvferry/connector-api/protocol'
import {
  hasRead,
  isClaimOver,
  isOpenTo,
  isSame,
  shareOf,
  stragglersOf,
  withShare,
  type Claim,
} from './lease-claim.ts'
import { leaseTransitions } from './lease-transitions.ts'
import type {
  LeaseContext,
  LeaseCount,
  LeaseEffect,
  LeaseEvent,
  LeaseState,
  ReaderNews,
} from './lease-types.ts'
import type { LeaseAnswer } from './messages.ts'

export type * from './lease-types.ts'
export type { Claim, Consumer, Reader, Share, Straggler } from './lease-claim.ts'

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

const latest = (left: Instant, right: Instant | null): Instant =>
  right !== null && right > left ? right : left

/** Who sent it has no part in the lease of another. */
const isForeign = (claim: Claim | null, event: LeaseEvent): boolean =>
  'reader' in event && claim !== null && !isSame(claim.reader, event.reader)

/** What a reader gets to hear when the lease is not its own. Nothing changes for anybody. */
function deny(state: LeaseState, event: LeaseEvent): LeaseStep {
  return event.kind === 'renew'
    ? stay(state, answer({ kind: 'claimed' }))
    : stay(state, count('refused'))
}

/** Its share has ended: the question was overtaken, or the news came twice. */
function repeatEnd(state: LeaseState, claim: Claim, event: LeaseEvent & ReaderNews): LeaseStep {
  if (event.kind !== 'renew') return stay(state, count('late'))
  const isRead = isSame(claim.reader, event.reader) && shareOf(claim, event.share.rank) === 'read'
  return stay(state, answer(isRead ? { kind: 'completed' } : unknown))
}

/** The event, if its share has ended already. */
function repeated(claim: Claim | null, event: LeaseEvent): (LeaseEvent & ReaderNews) | null {
  if (!('share' in event) || claim === null) return null
  const stand = shareOf(claim, event.share.rank)
  return stand === 'read' || stand === 'released' ? event : null
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
    case 'over-early':
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
  if (isForeign(state.claim, event)) return deny(state, event)
  const late = repeated(state.claim, event)
  if (late !== null) return repeatEnd(state, state.claim!, late)
  switch (event.kind) {
    case 'lease-start': {
      const deadline = latest(instantPlus(now, event.remainingMs), state.promisedUntil)
      const leased = { kind: 'leased', claim: state.claim, deadline } as const
      return stay(leased, count('granted'), { kind: 'arm', at: deadline })
    }
    case 'withdraw':
      return end()
    case 'renew': {
      const claim = withShare(state.claim, event, 'asked')
      return stay(
        { ...state, claim, promisedUntil: instantPlus(now, leaseDurationMs) },
        answer({ kind: 'granted', durationMs: leaseDurationMs }),
      )
    }
    case 'heartbeat': {
      if (!isOpenTo(state.claim, event.consumer)) return stay(state, answer({ kind: 'claimed' }))
      const promisedUntil = latest(instantPlus(now, leaseDurationMs), state.promisedUntil)
      const granted = answer({ kind: 'granted', durationMs: leaseDurationMs })
      return stay({ ...state, promisedUntil }, granted)
    }
    case 'read-done':
    case 'release': {
      const claim = withShare(state.claim, event, event.kind === 'release' ? 'released' : 'read')
      return stay(isClaimOver(claim) ? { kind: 'over-early', claim } : { ...state, claim })
    }
    case 'undelivered':
    case 'timer':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepEarly(
  state: Extract<LeaseState, { kind: 'over-early' }>,
  event: LeaseEvent,
  now: Instant,
  context: LeaseContext,
): LeaseStep {
  switch (event.kind) {
    case 'lease-start':
      return finish(state.claim, now, context, count('granted'))
    case 'withdraw':
      return end()
    case 'heartbeat':
      return stay(state, answer(unknown))
    case 'renew':
    case 'read-done':
    case 'release':
      return repeatEnd(state, state.claim, event)
    case 'undelivered':
    case 'timer':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Every share has ended; who has read is remembered. */
function finish(
  claim: Claim,
  now: Instant,
  { completedReadRetentionMs }: LeaseContext,
  ...before: readonly LeaseEffect[]
): LeaseStep {
  if (!hasRead(claim)) return end(...before, count('released'), reportSent)
  const forgetAt = instantPlus(now, completedReadRetentionMs)
  return stay({ kind: 'read', claim, forgetAt }, ...before, count('read'), reportSent, {
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
  if (isForeign(state.claim, event)) return deny(state, event)
  const late = repeated(state.claim, event)
  if (late !== null) return repeatEnd(state, state.claim!, late)
  switch (event.kind) {
    case 'renew': {
      // Over, though its timer has not run yet: what is over is never granted again.
      if (now >= state.deadline) return expire(state.claim, answer(unknown))
      const claim = withShare(state.claim, event, 'asked')
      const deadline = latest(state.deadline, instantPlus(now, context.leaseDurationMs))
      return stay(
        { kind: 'leased', claim, deadline },
        answer({ kind: 'granted', durationMs: context.leaseDurationMs }),
      )
    }
    case 'heartbeat': {
      if (now >= state.deadline) return expire(state.claim, answer(unknown))
      if (!isOpenTo(state.claim, event.consumer)) return stay(state, answer({ kind: 'claimed' }))
      const { leaseDurationMs } = context
      const deadline = latest(state.deadline, instantPlus(now, leaseDurationMs))
      return stay({ ...state, deadline }, answer({ kind: 'granted', durationMs: leaseDurationMs }))
    }
    case 'read-done':
    case 'release': {
      const claim = withShare(state.claim, event, event.kind === 'release' ? 'released' : 'read')
      return isClaimOver(claim) ? finish(claim, now, context) : stay({ ...state, claim })
    }
    case 'undelivered':
      // A load that has asked has it from the answer that was thought lost; a heartbeat alone claims nothing.
      return state.claim === null ? giveUp('undelivered', null) : stay(state)
    case 'timer':
      // Renewals move the deadline, not the timer.
      return now < state.deadline
        ? stay(state, { kind: 'arm', at: state.deadline })
        : expire(state.claim)
    case 'lease-start':
    case 'withdraw':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

const expire = (claim: Claim | null, ...before: readonly LeaseEffect[]): LeaseStep =>
  giveUp('expired', claim, ...before)

/** The blocks go back although somebody may still read them: who does is told that it was for nothing. */
function giveUp(
  why: 'expired' | 'undelivered',
  claim: Claim | null,
  ...before: readonly LeaseEffect[]
): LeaseStep {
  const stragglers = stragglersOf(claim).map((of): LeaseEffect => ({
    kind: 'expect-straggler',
    of,
  }))
  return end(...before, count(why), reportSent, ...stragglers)
}

function stepRead(
  state: Extract<LeaseState, { kind: 'read' }>,
  event: LeaseEvent,
  now: Instant,
): LeaseStep {
  switch (event.kind) {
    case 'renew':
    case 'read-done':
    case 'release':
      return repeatEnd(state, state.claim, event)
    case 'heartbeat':
      return stay(state, answer(unknown))
    case 'undelivered':
      return stay(state)
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
