import type { Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  stepConsumerRequest,
  consumerRequestTransitions,
  producerRequestTransitions,
  matchedTokenCount,
  stepProducerRequest,
  type ProducerRequestState,
  type ConsumerRequestEvent,
  type ConsumerRequestState,
  type ProducerRequestEvent,
} from '@kvferry/connector-api/protocol'

const now = 1_000 as Instant

testMachine('producer request', {
  step: (state, event, at) => stepProducerRequest(state, event, at, { leaseDurationMs: 500 }),
  now,
  table: producerRequestTransitions,
  states: {
    new: { kind: 'new' },
    announced: { kind: 'announced' },
    leased: { kind: 'leased' },
    ended: { kind: 'ended' },
  } satisfies Record<string, ProducerRequestState>,
  events: {
    allocated: { kind: 'allocated' },
    readable: { kind: 'finished-readable' },
    unreadable: { kind: 'finished-unreadable' },
    undelivered: { kind: 'undelivered' },
    sent: { kind: 'sent' },
  } satisfies Record<string, ProducerRequestEvent>,
  show: (effect) => (effect.kind === 'lease' ? `lease until ${effect.deadline}` : effect.kind),
  expected: {
    new: { allocated: 'announced: announce', unreadable: 'ended:' },
    announced: {
      allocated: 'announced:',
      readable: 'leased: lease until 1500',
      unreadable: 'ended: withdraw',
    },
    leased: { undelivered: 'leased: undelivered', sent: 'ended:' },
    ended: {},
  },
})

const offered: ConsumerRequestState = { kind: 'offered', tokenEnd: 9 }

testMachine('consumer request', {
  step: (state, event, at) => stepConsumerRequest(state, event, at, undefined),
  now,
  table: consumerRequestTransitions,
  states: {
    offered,
    refused: { kind: 'refused' },
    loading: { kind: 'loading' },
    settled: { kind: 'settled' },
    aborting: { kind: 'aborting' },
    ended: { kind: 'ended' },
  } satisfies Record<string, ConsumerRequestState>,
  events: {
    'allocated-for-load': { kind: 'allocated-for-load', blockIds: [Uint32Array.of(1, 2)] },
    allocated: { kind: 'allocated' },
    received: { kind: 'received' },
    finished: { kind: 'finished' },
  } satisfies Record<string, ConsumerRequestEvent>,
  expected: {
    offered: {
      'allocated-for-load': 'loading: load',
      allocated: 'settled: release',
      finished: 'ended: release',
    },
    refused: { allocated: 'refused:', finished: 'ended:' },
    loading: { received: 'settled:', finished: 'aborting: abort' },
    settled: { allocated: 'settled:', finished: 'ended:' },
    aborting: { received: 'ended:' },
    ended: {},
  },
})

test('what is matched is what is missing, unless computing it is cheaper', () => {
  expect(matchedTokenCount(offered, 0, 0)).toBe(9)
  expect(matchedTokenCount(offered, 8, 0)).toBe(1)
  expect(matchedTokenCount(offered, 8, 1)).toBe(1)
  expect(matchedTokenCount(offered, 8, 2)).toBe(0)
  expect(matchedTokenCount(offered, 9, 0)).toBe(0)
  expect(matchedTokenCount({ kind: 'settled' }, 0, 0)).toBe(0)
})
