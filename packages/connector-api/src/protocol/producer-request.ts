/**
 * One request on the producer's scheduler half, as a pure machine: announced to the worker when it gets
 * blocks, leased when it ends with KV that a consumer will read, gone when the worker says that its
 * blocks are the engine's again. Knows no block ids and no clock of its own. Used by pull and xavier.
 */
import { assertNever, instantPlus, type Instant } from '../index.ts'
import { checked, refuse, type Step, type TransitionTable } from './transition-table.ts'

export type ProducerRequestState =
  /** Not seen before. */
  | { readonly kind: 'new' }
  | { readonly kind: 'announced' }
  | { readonly kind: 'leased' }
  | { readonly kind: 'ended' }

export type ProducerRequestEvent =
  | { readonly kind: 'allocated' }
  /** Ended with KV in blocks that a consumer may read. */
  | { readonly kind: 'finished-readable' }
  | { readonly kind: 'finished-unreadable' }
  /** Its handoff reached nobody. */
  | { readonly kind: 'undelivered' }
  /** The worker reported the end of its lease. */
  | { readonly kind: 'sent' }

export type ProducerRequestEffect =
  | { readonly kind: 'announce' }
  | { readonly kind: 'withdraw' }
  /** Keep the blocks, start the lease, hand over. */
  | { readonly kind: 'lease'; readonly deadline: Instant }
  /** Keep them for no consumer that has not come yet. */
  | { readonly kind: 'undelivered' }

export interface ProducerContext {
  /** How long its blocks are kept for a reader. */
  readonly leaseDurationMs: number
}

export const producerRequestTransitions = {
  new: {
    allocated: ['announced'],
    // A request that never got blocks leaves nothing behind.
    'finished-unreadable': ['ended'],
  },
  announced: {
    // Again after a preemption, and for further chunks.
    allocated: ['announced'],
    'finished-readable': ['leased'],
    'finished-unreadable': ['ended'],
  },
  leased: { undelivered: ['leased'], sent: ['ended'] },
  ended: {},
} as const satisfies TransitionTable<ProducerRequestState['kind'], ProducerRequestEvent['kind']>

type ProducerStep = Step<ProducerRequestState, ProducerRequestEffect>

const machine = 'producer request'

function step(
  state: ProducerRequestState,
  event: ProducerRequestEvent,
  now: Instant,
  context: ProducerContext,
): ProducerStep {
  switch (state.kind) {
    case 'new':
    case 'announced':
      return stepUnfinished(state, event, now, context)
    case 'leased':
      if (event.kind === 'undelivered') return { state, effects: [{ kind: 'undelivered' }] }
      return { state: { kind: 'ended' }, effects: [] }
    case 'ended':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

function stepUnfinished(
  state: Extract<ProducerRequestState, { kind: 'new' | 'announced' }>,
  event: ProducerRequestEvent,
  now: Instant,
  { leaseDurationMs }: ProducerContext,
): ProducerStep {
  const wasAnnounced = state.kind === 'announced'
  switch (event.kind) {
    case 'allocated':
      return { state: { kind: 'announced' }, effects: wasAnnounced ? [] : [{ kind: 'announce' }] }
    case 'finished-readable': {
      const deadline = instantPlus(now, leaseDurationMs)
      return { state: { kind: 'leased' }, effects: [{ kind: 'lease', deadline }] }
    }
    case 'finished-unreadable':
      return { state: { kind: 'ended' }, effects: wasAnnounced ? [{ kind: 'withdraw' }] : [] }
    case 'undelivered':
    case 'sent':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepProducerRequest = checked(machine, producerRequestTransitions, step)
