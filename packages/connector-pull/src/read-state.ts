/**
 * One producer rank's share of a load on the consumer's worker half, as a pure machine: wait for the connection, ask the
 * producer for the lease and post the READ in one turn, and judge at the end. Two rules decide everything:
 *
 * - It has no end before the READ has a final status: until then it may write into the blocks.
 * - The bytes are good only if the producer held the blocks all the time that the READ ran: either a
 *   lease granted to this load has not run out yet, or the producer, asked after the READ, says so.
 *
 * Called by read-table.ts, which performs the effects in order.
 */
import {
  ConnectorError,
  assertNever,
  instantPlus,
  limits,
  type AnyConnectorError,
  type Instant,
  type TransferTimes,
} from '@kvferry/connector-api'
import { checked, refuse, type Step, type LoadOutcome } from '@kvferry/connector-api/protocol'
import { readTransitions } from './read-transitions.ts'
import type { Grant, ReadEffect, ReadEvent, ReadState } from './read-types.ts'

export type { Grant, ReadEffect, ReadEvent, ReadState } from './read-types.ts'

type ReadStep = Step<ReadState, ReadEffect>
type Reading = Extract<ReadState, { kind: 'reading' | 'overdue' }>
type Draining = Extract<ReadState, { kind: 'draining' | 'draining-overdue' }>
type ReadDone = Extract<ReadState, { kind: 'awaiting-grant' | 'checking' }>

const machine = 'read'
const always = Infinity as Instant

const stay = (state: ReadState): ReadStep => ({ state, effects: [] })

function end(
  outcome: LoadOutcome,
  times: TransferTimes | null,
  ...before: readonly ReadEffect[]
): ReadStep {
  return {
    state: { kind: 'ended', outcome, times },
    effects: [...before, { kind: 'report', outcome }],
  }
}

const fail = (error: AnyConnectorError): LoadOutcome => ({ kind: 'failed', error })
/** The producer claims to have heard of a READ that never began. */
const nothingRead = new ConnectorError(
  'ERR_KV_MESSAGE_INVALID',
  'the producer took a load for read that had not begun',
  { where: 'pull.renew', reason: 'completed before it began' },
)
const loaded: LoadOutcome = { kind: 'loaded' }
const aborted: LoadOutcome = { kind: 'aborted' }

function step(state: ReadState, event: ReadEvent, now: Instant): ReadStep {
  switch (state.kind) {
    case 'connecting':
    case 'posting':
    case 'asked':
      return stepBeforeRead(state, event)
    case 'requesting':
      return stepRequesting(state, event)
    case 'reading':
    case 'overdue':
      return stepReading(state, event, now)
    case 'draining':
    case 'draining-overdue':
      return stepDraining(state, event)
    case 'awaiting-grant':
    case 'checking':
      return stepReadDone(state, event, now)
    case 'ended':
      // Answers and aborts may come late.
      return stay(state)
    default:
      return assertNever(state)
  }
}

function stepBeforeRead(
  state: Extract<ReadState, { kind: 'connecting' | 'posting' | 'asked' }>,
  event: ReadEvent,
): ReadStep {
  switch (event.kind) {
    case 'peer-ready':
      return { state: { kind: 'posting' }, effects: [{ kind: 'post' }] }
    case 'peer-ready-staged':
      return { state: { kind: 'requesting' }, effects: [{ kind: 'ask' }] }
    case 'peer-fail':
    case 'handoff-refuse':
      return end(fail(event.error), null)
    case 'handoff-accept':
      // Before the post: the answer is often what a load waits for last.
      return { state: { kind: 'asked' }, effects: [{ kind: 'ask' }] }
    case 'post-end':
      return stay({ kind: 'reading', transfer: event.transfer, grant: { kind: 'asked' } })
    case 'post-fail':
      return end(fail(event.error), null, { kind: 'release' })
    case 'abort':
      return end(aborted, null, { kind: 'release' })
    case 'transfer-done':
    case 'transfer-fail':
    case 'transfer-overdue':
    case 'lease-grant':
    case 'lease-complete':
    case 'lease-refuse':
    case 'lease-silence':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepRequesting(
  state: Extract<ReadState, { kind: 'requesting' }>,
  event: ReadEvent,
): ReadStep {
  switch (event.kind) {
    case 'lease-grant':
      return { state: { kind: 'posting' }, effects: [{ kind: 'post' }] }
    case 'lease-refuse':
      return end(fail(event.error), null)
    case 'lease-silence':
    case 'peer-fail':
      return end(fail(event.error), null, { kind: 'release' })
    case 'lease-complete':
      return end(fail(nothingRead), null)
    case 'abort':
      return end(aborted, null, { kind: 'release' })
    case 'peer-ready':
    case 'peer-ready-staged':
    case 'handoff-refuse':
    case 'handoff-accept':
    case 'post-end':
    case 'post-fail':
    case 'transfer-done':
    case 'transfer-fail':
    case 'transfer-overdue':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepReading(state: Reading, event: ReadEvent, now: Instant): ReadStep {
  const withGrant = (grant: Grant): ReadStep => stay({ ...state, grant })
  switch (event.kind) {
    case 'transfer-done':
      return judge(state.grant, event.times, now)
    case 'transfer-fail':
      return end(fail(event.error), event.times, { kind: 'release' })
    case 'transfer-overdue':
      return stay({ ...state, kind: 'overdue' })
    case 'lease-grant':
      return withGrant({ kind: 'granted', validUntil: validUntil(event) })
    case 'lease-complete':
      // The producer's news of the READ's end was faster than ours.
      return withGrant({ kind: 'granted', validUntil: always })
    case 'lease-refuse':
      return withGrant({ kind: 'refused', error: event.error })
    case 'lease-silence':
      return withGrant({ kind: 'unanswered' })
    case 'abort':
      return stay({
        kind: state.kind === 'overdue' ? 'draining-overdue' : 'draining',
        transfer: state.transfer,
      })
    case 'peer-fail':
      // The READ's own status decides; it may even succeed.
      return stay(state)
    case 'peer-ready':
    case 'peer-ready-staged':
    case 'handoff-refuse':
    case 'handoff-accept':
    case 'post-end':
    case 'post-fail':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** The READ is done: were the blocks held all the time? */
function judge(grant: Grant, times: TransferTimes, now: Instant): ReadStep {
  switch (grant.kind) {
    case 'granted':
      return now < grant.validUntil ? end(loaded, times) : check(times)
    case 'refused':
      return end(fail(grant.error), times)
    case 'asked':
      return stay({ kind: 'awaiting-grant', times })
    case 'unanswered':
      return check(times)
    default:
      return assertNever(grant)
  }
}

const check = (times: TransferTimes): ReadStep => ({
  state: { kind: 'checking', times },
  effects: [{ kind: 'ask' }],
})

function stepDraining(state: Draining, event: ReadEvent): ReadStep {
  switch (event.kind) {
    case 'transfer-done':
      return end(aborted, event.times)
    case 'transfer-fail':
      return end(aborted, event.times, { kind: 'release' })
    case 'transfer-overdue':
      return stay({ ...state, kind: 'draining-overdue' })
    case 'lease-grant':
    case 'lease-complete':
    case 'lease-refuse':
    case 'lease-silence':
    case 'peer-fail':
      return stay(state)
    case 'peer-ready':
    case 'peer-ready-staged':
    case 'handoff-refuse':
    case 'handoff-accept':
    case 'post-end':
    case 'post-fail':
    case 'abort':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepReadDone(state: ReadDone, event: ReadEvent, now: Instant): ReadStep {
  const { times } = state
  const isDecisive = state.kind === 'checking'
  switch (event.kind) {
    case 'lease-grant':
      return isDecisive || now < validUntil(event) ? end(loaded, times) : check(times)
    case 'lease-complete':
      return end(loaded, times)
    case 'lease-refuse':
      return end(fail(event.error), times)
    case 'lease-silence':
      return isDecisive ? end(fail(event.error), times) : check(times)
    case 'abort':
      return end(aborted, times)
    case 'peer-fail':
      return stay(state)
    case 'peer-ready':
    case 'peer-ready-staged':
    case 'handoff-refuse':
    case 'handoff-accept':
    case 'post-end':
    case 'post-fail':
    case 'transfer-done':
    case 'transfer-fail':
    case 'transfer-overdue':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Counted from when the question left: the producer counts from later, so this is never too long. */
const validUntil = (event: Extract<ReadEvent, { kind: 'lease-grant' }>): Instant =>
  instantPlus(event.sentAt, event.durationMs - limits.leaseSafetyMarginMs)

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepRead = checked(machine, readTransitions, step)
