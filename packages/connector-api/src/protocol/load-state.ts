/**
 * One load on the consumer, as a pure machine over its parts, one for each producer rank that has some of its
 * heads (READs of this rank's, or registrations for WRITEs): all done, and it is loaded; one failed, and the
 * others are ended; it is reported only when none is open any more, since until then its blocks may be
 * written into.
 */
import { assertNever, type AnyConnectorError } from '../index.ts'
import type { LoadOutcome } from './load-results.ts'
import { checked, refuse, type Step, type TransitionTable } from './transition-table.ts'

export type LoadState =
  | {
      readonly kind: 'waiting'
      /** Parts that have not ended. */
      readonly openCount: number
      readonly failure: AnyConnectorError | null
      readonly isAborted: boolean
    }
  /** All bytes have landed; the last work on them is under way. */
  | { readonly kind: 'finishing'; readonly isAborted: boolean }
  | { readonly kind: 'ended'; readonly outcome: LoadOutcome }

export type LoadEvent =
  | { readonly kind: 'part-done' }
  | { readonly kind: 'part-failed'; readonly error: AnyConnectorError }
  | { readonly kind: 'abort'; readonly reason: AnyConnectorError }
  | { readonly kind: 'deadline'; readonly error: AnyConnectorError }
  /** The work on the bytes is done; `error` says why in vain. */
  | { readonly kind: 'finish-end'; readonly error: AnyConnectorError | null }

export type LoadEffect =
  | { readonly kind: 'end-parts'; readonly reason: AnyConnectorError }
  | { readonly kind: 'finish' }
  | { readonly kind: 'report'; readonly outcome: LoadOutcome }

export const loadTransitions: TransitionTable<LoadState['kind'], LoadEvent['kind']> = {
  waiting: {
    'part-done': ['waiting', 'finishing', 'ended'],
    'part-failed': ['waiting', 'ended'],
    abort: ['waiting'],
    deadline: ['waiting'],
  },
  finishing: { abort: ['finishing'], deadline: ['finishing'], 'finish-end': ['ended'] },
  // The engine may give a request up whose end it has not fetched yet.
  ended: { abort: ['ended'], deadline: ['ended'] },
}

type LoadStep = Step<LoadState, LoadEffect>
type Waiting = Extract<LoadState, { kind: 'waiting' }>

const machine = 'load'
const stay = (state: LoadState): LoadStep => ({ state, effects: [] })

function end(outcome: LoadOutcome): LoadStep {
  return { state: { kind: 'ended', outcome }, effects: [{ kind: 'report', outcome }] }
}

function step(state: LoadState, event: LoadEvent): LoadStep {
  switch (state.kind) {
    case 'waiting':
      return stepWaiting(state, event)
    case 'finishing':
      return stepFinishing(state, event)
    case 'ended':
      return stay(state)
    default:
      return assertNever(state)
  }
}

function stepWaiting(state: Waiting, event: LoadEvent): LoadStep {
  const openCount = state.openCount - 1
  switch (event.kind) {
    case 'part-done':
      return partEnd({ ...state, openCount })
    case 'part-failed': {
      const failure = state.failure ?? event.error
      const after = partEnd({ ...state, openCount, failure })
      if (state.failure !== null || openCount === 0) return after
      return { ...after, effects: [{ kind: 'end-parts', reason: event.error }] }
    }
    case 'abort':
      return {
        state: { ...state, isAborted: true },
        effects: [{ kind: 'end-parts', reason: event.reason }],
      }
    case 'deadline':
      return { state, effects: [{ kind: 'end-parts', reason: event.error }] }
    case 'finish-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function partEnd(state: Waiting): LoadStep {
  const { openCount, failure, isAborted } = state
  if (openCount > 0) return stay(state)
  if (isAborted) return end({ kind: 'aborted' })
  if (failure !== null) return end({ kind: 'failed', error: failure })
  return { state: { kind: 'finishing', isAborted: false }, effects: [{ kind: 'finish' }] }
}

function stepFinishing(
  state: Extract<LoadState, { kind: 'finishing' }>,
  event: LoadEvent,
): LoadStep {
  switch (event.kind) {
    case 'abort':
      return stay({ kind: 'finishing', isAborted: true })
    case 'deadline':
      return stay(state)
    case 'finish-end':
      if (state.isAborted) return end({ kind: 'aborted' })
      return end(event.error === null ? { kind: 'loaded' } : { kind: 'failed', error: event.error })
    case 'part-done':
    case 'part-failed':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepLoad = checked(machine, loadTransitions, step)
