/**
 * The lease machine's transitions as data; see load-transitions.ts.
 */
import type { TransitionTable } from '@kvferry/connector-api/protocol'
import type { LeaseEvent, LeaseState } from './lease-state.ts'

export const leaseTransitions: TransitionTable<LeaseState['kind'], LeaseEvent['kind']> = {
  announced: {
    'lease-start': ['leased'],
    withdraw: ['ended'],
    renew: ['announced'],
    heartbeat: ['announced'],
    'read-done': ['read-early', 'announced'],
    release: ['released-early', 'announced'],
  },
  'read-early': {
    'lease-start': ['read'],
    withdraw: ['ended'],
    renew: ['read-early'],
    heartbeat: ['read-early'],
    'read-done': ['read-early'],
    release: ['read-early'],
  },
  'released-early': {
    'lease-start': ['ended'],
    withdraw: ['ended'],
    renew: ['released-early'],
    heartbeat: ['released-early'],
    'read-done': ['released-early'],
    release: ['released-early'],
  },
  leased: {
    renew: ['leased', 'ended'],
    heartbeat: ['leased', 'ended'],
    'read-done': ['read', 'leased'],
    release: ['ended', 'leased'],
    timer: ['leased', 'ended'],
  },
  // The record of a lease that is over may still have its old timer.
  read: {
    renew: ['read'],
    heartbeat: ['read'],
    'read-done': ['read'],
    release: ['read'],
    timer: ['read', 'ended'],
  },
  ended: {},
}
