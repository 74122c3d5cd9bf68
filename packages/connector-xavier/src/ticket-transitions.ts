/**
 * The ticket machine's transitions as data (rows P1 – P19 of Xavier's table; the comments name them). What is
 * not here is refused. The diagram in the README is made from this table.
 */
import type { TransitionTable } from '@kvferry/connector-api/protocol'
import type { TicketEvent, TicketState } from './ticket-state.ts'

export const ticketTransitions: TransitionTable<TicketState['kind'], TicketEvent['kind']> = {
  announced: {
    // P1: its request ended with KV. Its consumer may have been faster than the step that says so.
    register: ['unclaimed', 'claimed', 'reading', 'retaining', 'finished'],
    // P2: its request ended without.
    withdraw: ['finished'],
    claim: ['announced'],
    'read-start': ['announced'],
    'read-end': ['announced'],
    release: ['announced'],
    'claimant-gone': ['announced'],
    close: ['finished'],
  },
  unclaimed: {
    // P3
    claim: ['claimed', 'finished'],
    // P5
    timer: ['unclaimed', 'finished'],
    // P7
    'read-start': ['reading'],
    // P11, P13
    release: ['retaining', 'finished'],
    'claimant-gone': ['unclaimed'],
    undelivered: ['retaining', 'finished'],
    close: ['finished'],
  },
  claimed: {
    // P4
    claim: ['claimed', 'finished'],
    // P6
    timer: ['claimed', 'finished'],
    // P7
    'read-start': ['reading'],
    // P12, P13
    release: ['claimed', 'retaining', 'finished'],
    'claimant-gone': ['claimed'],
    undelivered: ['claimed'],
    close: ['finished'],
  },
  reading: {
    claim: ['reading'],
    // P8
    timer: ['reading'],
    // P9, P10
    'read-end': ['retaining', 'finished'],
    // P12, P14
    release: ['reading'],
    'claimant-gone': ['reading'],
    undelivered: ['reading'],
    close: ['reading'],
  },
  retaining: {
    claim: ['retaining'],
    timer: ['retaining'],
    release: ['retaining'],
    'claimant-gone': ['retaining'],
    undelivered: ['retaining'],
    // P15
    'retention-end': ['finished'],
    close: ['retaining'],
  },
  // P16; P19: the table forgets it at once, so nothing is left to answer.
  finished: {},
}
