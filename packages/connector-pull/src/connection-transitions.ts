/**
 * The connection machine's transitions as data; see load-transitions.ts.
 */
import type { TransitionTable } from '@kvferry/connector-api/protocol'
import type { ConnectionEvent, ConnectionState } from './connection-state.ts'

export const connectionTransitions: TransitionTable<
  ConnectionState['kind'],
  ConnectionEvent['kind']
> = {
  associating: {
    'associate-end': ['exchanging', 'ended'],
    'handshake-fail': ['ended'],
    deadline: ['ended'],
    close: ['ended'],
  },
  exchanging: {
    'exchange-end': ['adding', 'ended'],
    'handshake-fail': ['ended'],
    deadline: ['ended'],
    'association-end': ['ended'],
    close: ['ended'],
  },
  adding: {
    'add-end': ['ready'],
    'handshake-fail': ['ended'],
    deadline: ['abandoning'],
    'association-end': ['abandoning'],
    close: ['abandoning'],
  },
  abandoning: {
    'add-end': ['removing'],
    'handshake-fail': ['ended'],
    close: ['abandoning'],
  },
  ready: {
    'read-end': ['wired'],
    idle: ['ready'],
    'association-end': ['draining'],
    close: ['removing'],
  },
  wired: {
    'read-end': ['wired'],
    idle: ['wired'],
    'association-end': ['draining'],
    close: ['removing'],
  },
  draining: { 'read-end': ['draining'], idle: ['removing'], close: ['removing'] },
  // A closing worker removes peers whose READs are still open; their ends come later.
  removing: {
    'remove-end': ['ended'],
    'read-end': ['removing'],
    idle: ['removing'],
    close: ['removing'],
  },
  ended: {
    'associate-end': ['ended'],
    'exchange-end': ['ended'],
    'handshake-fail': ['ended'],
    close: ['ended'],
  },
}
