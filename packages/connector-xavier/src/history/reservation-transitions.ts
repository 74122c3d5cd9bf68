/**
 * The transitions of a reservation on the worker half as data (rows H1 – H10 of Xavier's table; the comments
 * name them). What is not here is refused. The diagram in the README is made from this table.
 */
import type { TransitionTable } from '@kvferry/connector-api/protocol'
import type { ReservationEvent, ReservationState } from './reservation-state.ts'

export const reservationTransitions: TransitionTable<
  ReservationState['kind'],
  ReservationEvent['kind']
> = {
  none: {
    // H1, H3
    found: ['reserved'],
    missing: ['ended'],
  },
  reserved: {
    // H2: asked again, the old one is given back first.
    found: ['reserved'],
    missing: ['ended'],
    // H4, H7; H10: it doesn't start
    restore: ['restoring'],
    // H5
    forget: ['ended'],
    close: ['ended'],
  },
  restoring: {
    // H6: what was begun is waited for.
    forget: ['restoring'],
    close: ['restoring'],
    // It has no end yet: nothing is reported, the blocks stay where they are.
    overdue: ['restoring'],
    // H8, H9 (K2)
    'restore-end': ['ended'],
  },
  ended: {},
}
