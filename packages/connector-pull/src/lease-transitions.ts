/**
 * The lease machine's transitions as data; see read-transitions.ts.
 */
import type { TransitionTable } from '@kvferry/connector-api/protocol'
import type { LeaseEvent, LeaseState } from './lease-types.ts'

export const leaseTransitions: TransitionTable<LeaseState['kind'], LeaseEvent['kind']> = {
  announced: {
    'lease-start': ['leased'],
    withdraw: ['ended'],
    renew: ['announced'],
    heartbeat: ['announced'],
    'read-done': ['over-early', 'announced'],
    release: ['over-early', 'announced'],
  },
  'over-early': {
    'lease-start': ['read', 'ended'],
    withdraw: ['ended'],
    renew: ['over-early'],
    heartbeat: ['over-early'],
    'read-done': ['over-early'],
    release: ['over-early'],
  },
  leased: {
    renew: ['leased', 'ended'],
    heartbeat: ['leased', 'ended'],
    'read-done': ['read', 'leased'],
    // The last share is given back, and another was read.
    release: ['ended', 'leased', 'read'],
    undelivered: ['leased', 'ended'],
    timer: ['leased', 'ended'],
  },
  // The record of a lease that is over may still have its old timer.
  read: {
    renew: ['read'],
    heartbeat: ['read'],
    'read-done': ['read'],
    release: ['read'],
    undelivered: ['read'],
    timer: ['read', 'ended'],
  },
  ended: {},
}
