import type { Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import {
  producerRequestTransitions,
  stepProducerRequest,
  type ProducerRequestEvent,
  type ProducerRequestState,
} from '../src/producer-request-state.ts'

testMachine('producer request', {
  step: (state, event, at) => stepProducerRequest(state, event, at, undefined),
  now: 1_000 as Instant,
  table: producerRequestTransitions,
  states: {
    announced: { kind: 'announced', wasHandedOver: false },
    'announced again': { kind: 'announced', wasHandedOver: true },
    partial: { kind: 'partial' },
    complete: { kind: 'complete' },
    held: { kind: 'held' },
    ended: { kind: 'ended' },
  } satisfies Record<string, ProducerRequestState>,
  events: {
    part: { kind: 'computed-part' },
    all: { kind: 'computed-all' },
    preempted: { kind: 'preempted' },
    readable: { kind: 'finished-readable' },
    unreadable: { kind: 'finished-unreadable' },
    undelivered: { kind: 'undelivered' },
    sent: { kind: 'sent' },
  } satisfies Record<string, ProducerRequestEvent>,
  show: (effect) =>
    effect.kind === 'hand-over' ? `hand-over-${effect.isLast ? 'last' : 'part'}` : effect.kind,
  expected: {
    announced: {
      part: 'partial: hand-over-part',
      all: 'complete: hand-over-last',
      preempted: 'announced:',
      // Nothing of it was handed over: nobody reads its blocks.
      readable: 'ended: withdraw',
      unreadable: 'ended: withdraw',
    },
    'announced again': {
      part: 'partial: hand-over-part',
      all: 'complete: hand-over-last',
      preempted: 'announced: preempt',
      readable: 'held: abort',
      unreadable: 'held: abort',
    },
    partial: {
      part: 'partial: hand-over-part',
      all: 'complete: hand-over-last',
      preempted: 'announced: preempt',
      readable: 'held: abort',
      unreadable: 'held: abort',
    },
    complete: {
      // Once whole, later tokens of the same request are not the prompt's.
      part: 'complete:',
      all: 'complete:',
      preempted: 'announced: preempt',
      readable: 'held: finish',
      unreadable: 'held: abort',
    },
    held: { undelivered: 'held: undelivered', sent: 'ended:' },
    ended: {},
  },
})
