/**
 * What the worker half has reserved in the history for one request, as a pure machine: until the engine has
 * blocks for it, then while they are written. Blocks that a copy may still write are never reported. Called by
 * history-desk.ts.
 */
import { assertNever, type AnyConnectorError, type HistoryLease } from '@kvferry/connector-api'
import { checked, refuse, type Step } from '@kvferry/connector-api/protocol'
import { reservationTransitions } from './reservation-transitions.ts'

export type ReservationState =
  /** Just asked about. */
  | { readonly kind: 'none' }
  | { readonly kind: 'reserved'; readonly lease: HistoryLease }
  | {
      readonly kind: 'restoring'
      readonly blockIds: Uint32Array
      /** Past its deadline: its blocks are out of service. */
      readonly isOverdue: boolean
    }
  | { readonly kind: 'ended' }

export type ReservationEvent =
  /** The history has pinned a run. */
  | { readonly kind: 'found'; readonly lease: HistoryLease }
  | { readonly kind: 'missing' }
  /** The engine has allocated: write the reserved blocks into these. */
  | { readonly kind: 'restore'; readonly blockIds: Uint32Array }
  /** The request needs nothing of it any more. */
  | { readonly kind: 'forget' }
  | { readonly kind: 'overdue' }
  /** Nothing writes into the blocks any more; null: they hold their KV. */
  | { readonly kind: 'restore-end'; readonly error: AnyConnectorError | null }
  | { readonly kind: 'close' }

export type ReservationEffect =
  | { readonly kind: 'release'; readonly lease: HistoryLease }
  | { readonly kind: 'copy'; readonly lease: HistoryLease; readonly blockIds: Uint32Array }
  /** The blocks are the engine's again; with an error they hold nothing that may be used. */
  | {
      readonly kind: 'report'
      readonly blockIds: Uint32Array
      readonly error: AnyConnectorError | null
    }
  | { readonly kind: 'alarm' }

type ReservationStep = Step<ReservationState, ReservationEffect>

const machine = 'reservation'
const stay = (
  state: ReservationState,
  ...effects: readonly ReservationEffect[]
): ReservationStep => ({ state, effects })
const ended: ReservationState = { kind: 'ended' }

function step(state: ReservationState, event: ReservationEvent): ReservationStep {
  switch (state.kind) {
    case 'none':
    case 'reserved':
      return stepIdle(state, event)
    case 'restoring':
      return stepRestoring(state, event)
    case 'ended':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

function stepIdle(
  state: Extract<ReservationState, { kind: 'none' | 'reserved' }>,
  event: ReservationEvent,
): ReservationStep {
  const giveBack: readonly ReservationEffect[] =
    state.kind === 'reserved' ? [{ kind: 'release', lease: state.lease }] : []
  switch (event.kind) {
    case 'found':
      return stay({ kind: 'reserved', lease: event.lease }, ...giveBack)
    case 'missing':
    case 'forget':
    case 'close':
      return stay(ended, ...giveBack)
    case 'restore': {
      if (state.kind === 'none') return refuse(machine, state, event)
      const { lease } = state
      const { blockIds } = event
      return stay(
        { kind: 'restoring', blockIds, isOverdue: false },
        { kind: 'copy', lease, blockIds },
      )
    }
    case 'overdue':
    case 'restore-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepRestoring(
  state: Extract<ReservationState, { kind: 'restoring' }>,
  event: ReservationEvent,
): ReservationStep {
  switch (event.kind) {
    case 'forget':
    case 'close':
      return stay(state)
    case 'overdue':
      return stay({ ...state, isOverdue: true }, { kind: 'alarm' })
    case 'restore-end': {
      const { error } = event
      return stay(ended, { kind: 'report', blockIds: state.blockIds, error })
    }
    case 'found':
    case 'missing':
    case 'restore':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepReservation = checked(machine, reservationTransitions, step)
