/**
 * One request on the producer's scheduler half, as a pure machine: what the worker half was told of it
 * decides how it ends. Once KV of it was handed over, WRITEs may read its blocks, and the engine keeps them
 * until the worker's report, however the request ends. Called by producer-requests.ts.
 */
import { assertNever } from '@kvferry/connector-api'
import { checked, refuse, type Step, type TransitionTable } from '@kvferry/connector-api/protocol'

export type ProducerRequestState =
  /** Nothing of it was handed over, or it was preempted since. */
  | { readonly kind: 'announced'; readonly wasHandedOver: boolean }
  /** Some of its KV was handed over. */
  | { readonly kind: 'partial' }
  /** All of its prompt's KV was. */
  | { readonly kind: 'complete' }
  /** The engine keeps its blocks. */
  | { readonly kind: 'held' }
  | { readonly kind: 'ended' }

export type ProducerRequestEvent =
  | { readonly kind: 'computed-part' }
  | { readonly kind: 'computed-all' }
  | { readonly kind: 'preempted' }
  /** Ended by itself, with its prompt's KV in its blocks. */
  | { readonly kind: 'finished-readable' }
  | { readonly kind: 'finished-unreadable' }
  /** Its answer reached nobody. */
  | { readonly kind: 'undelivered' }
  /** The worker's report. */
  | { readonly kind: 'sent' }

export type ProducerRequestEffect =
  /** Hand over what was computed. */
  | { readonly kind: 'hand-over'; readonly isLast: boolean }
  | { readonly kind: 'preempt' }
  | { readonly kind: 'finish' }
  | { readonly kind: 'abort' }
  | { readonly kind: 'withdraw' }
  | { readonly kind: 'undelivered' }

type Kind = ProducerRequestState['kind']

export const producerRequestTransitions: TransitionTable<Kind, ProducerRequestEvent['kind']> = {
  announced: {
    'computed-part': ['partial'],
    'computed-all': ['complete'],
    preempted: ['announced'],
    'finished-readable': ['held', 'ended'],
    'finished-unreadable': ['held', 'ended'],
  },
  partial: {
    'computed-part': ['partial'],
    'computed-all': ['complete'],
    preempted: ['announced'],
    'finished-readable': ['held'],
    'finished-unreadable': ['held'],
  },
  complete: {
    'computed-part': ['complete'],
    'computed-all': ['complete'],
    preempted: ['announced'],
    'finished-readable': ['held'],
    'finished-unreadable': ['held'],
  },
  held: { undelivered: ['held'], sent: ['ended'] },
  ended: {},
}

type ProducerStep = Step<ProducerRequestState, ProducerRequestEffect>

const machine = 'producer request'
const stay = (
  state: ProducerRequestState,
  ...effects: readonly ProducerRequestEffect[]
): ProducerStep => ({ state, effects })

function step(state: ProducerRequestState, event: ProducerRequestEvent): ProducerStep {
  switch (state.kind) {
    case 'announced':
    case 'partial':
    case 'complete':
      return stepAnnounced(state, event)
    case 'held':
      if (event.kind === 'undelivered') return stay(state, { kind: 'undelivered' })
      return stay({ kind: 'ended' })
    case 'ended':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

type Announced = Extract<ProducerRequestState, { kind: 'announced' | 'partial' | 'complete' }>

function stepAnnounced(state: Announced, event: ProducerRequestEvent): ProducerStep {
  const isHandedOver = state.kind === 'announced' ? state.wasHandedOver : true
  switch (event.kind) {
    case 'computed-part':
      if (state.kind === 'complete') return stay(state)
      return stay({ kind: 'partial' }, { kind: 'hand-over', isLast: false })
    case 'computed-all':
      if (state.kind === 'complete') return stay(state)
      return stay({ kind: 'complete' }, { kind: 'hand-over', isLast: true })
    case 'preempted':
      return stay(
        { kind: 'announced', wasHandedOver: isHandedOver },
        ...(isHandedOver ? [{ kind: 'preempt' } as const] : []),
      )
    case 'finished-readable':
      if (state.kind === 'complete') return stay({ kind: 'held' }, { kind: 'finish' })
      return unreadable(isHandedOver)
    case 'finished-unreadable':
      return unreadable(isHandedOver)
    case 'undelivered':
    case 'sent':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

const unreadable = (isHandedOver: boolean): ProducerStep =>
  isHandedOver
    ? stay({ kind: 'held' }, { kind: 'abort' })
    : stay({ kind: 'ended' }, { kind: 'withdraw' })

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepProducerRequest = checked(machine, producerRequestTransitions, step)
