/**
 * The transitions of a returning prompt on the scheduler half, as data. What is not here is refused: a
 * question about a request that is being restored is the engine's mistake (H4).
 */
import type { TransitionTable } from '@kvferry/connector-api/protocol'
import type { ReturningEvent, ReturningState } from './returning-state.ts'

export const returningTransitions: TransitionTable<ReturningState['kind'], ReturningEvent['kind']> =
  {
    new: {
      match: ['new', 'asked'],
      // An answer to a request of the same id, which is gone.
      answered: ['new'],
      allocated: ['settled'],
      finished: ['ended'],
    },
    asked: {
      // Without an answer in time it is computed.
      match: ['asked', 'settled'],
      answered: ['asked', 'answered'],
      allocated: ['settled'],
      finished: ['ended'],
    },
    answered: {
      // H2
      match: ['answered', 'asked'],
      answered: ['answered'],
      // H4
      allocated: ['restoring', 'settled'],
      // H5
      finished: ['ended'],
    },
    restoring: {
      answered: ['restoring'],
      received: ['settled'],
      // H6
      finished: ['aborting'],
    },
    // Restored, or computed: preempted afterwards, it is computed.
    settled: {
      match: ['settled'],
      answered: ['settled'],
      allocated: ['settled'],
      finished: ['ended'],
    },
    aborting: { answered: ['aborting'], received: ['ended'] },
    ended: {},
  }
