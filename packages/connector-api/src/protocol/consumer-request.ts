/**
 * One request on the consumer's scheduler half, as a pure machine: offered (it came with a handoff),
 * then loading or settled when the engine allocates, then gone. A settled request never asks for remote
 * KV again: after a preemption the producer has long freed it. Used by pull and push.
 */
import { assertNever, type BlockIds } from '../index.ts'
import { checked, refuse, type Step, type TransitionTable } from './transition-table.ts'

export type ConsumerRequestState =
  /** `tokenEnd`: of the tokens that the producer has, the prompt's. */
  | { readonly kind: 'offered'; readonly tokenEnd: number }
  /** Its handoff was malformed; kept so that it's counted once. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'loading' }
  /** Loaded, failed, or nothing to load: from here on an ordinary request. */
  | { readonly kind: 'settled' }
  /** Ended while its READ may still write: the engine holds the blocks until the worker's report. */
  | { readonly kind: 'aborting' }
  | { readonly kind: 'ended' }

export type ConsumerRequestEvent =
  /** Blocks were allocated and the engine took the remote tokens. `blockIds`: those to be filled. */
  | { readonly kind: 'allocated-for-load'; readonly blockIds: BlockIds }
  /** Blocks were allocated without remote tokens (full hit, below the threshold, or back from its load). */
  | { readonly kind: 'allocated' }
  | { readonly kind: 'received' }
  | { readonly kind: 'finished' }

export type ConsumerRequestEffect =
  | { readonly kind: 'load'; readonly localBlockIds: BlockIds; readonly tokenEnd: number }
  | { readonly kind: 'release' }
  | { readonly kind: 'abort' }

export const consumerRequestTransitions = {
  offered: {
    'allocated-for-load': ['loading'],
    allocated: ['settled'],
    finished: ['ended'],
  },
  refused: { allocated: ['refused'], finished: ['ended'] },
  loading: { received: ['settled'], finished: ['aborting'] },
  settled: { allocated: ['settled'], finished: ['ended'] },
  aborting: { received: ['ended'] },
  ended: {},
} as const satisfies TransitionTable<ConsumerRequestState['kind'], ConsumerRequestEvent['kind']>

type ConsumerStep = Step<ConsumerRequestState, ConsumerRequestEffect>

const machine = 'consumer request'
const settled: ConsumerStep = { state: { kind: 'settled' }, effects: [] }
const ended: ConsumerStep = { state: { kind: 'ended' }, effects: [] }

function step(state: ConsumerRequestState, event: ConsumerRequestEvent): ConsumerStep {
  switch (state.kind) {
    case 'offered':
      return stepOffered(state, event)
    case 'refused':
    case 'settled':
      return event.kind === 'finished' ? ended : { state, effects: [] }
    case 'loading':
      return event.kind === 'received'
        ? settled
        : { state: { kind: 'aborting' }, effects: [{ kind: 'abort' }] }
    case 'aborting':
      return ended
    case 'ended':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

function stepOffered(
  state: Extract<ConsumerRequestState, { kind: 'offered' }>,
  event: ConsumerRequestEvent,
): ConsumerStep {
  switch (event.kind) {
    case 'allocated-for-load':
      return {
        state: { kind: 'loading' },
        effects: [{ kind: 'load', localBlockIds: event.blockIds, tokenEnd: state.tokenEnd }],
      }
    case 'allocated':
      return { ...settled, effects: [{ kind: 'release' }] }
    case 'finished':
      return { ...ended, effects: [{ kind: 'release' }] }
    case 'received':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepConsumerRequest = checked(machine, consumerRequestTransitions, step)

/** Tokens to be had from the producer beyond the local hit. Pure, repeatable. */
export function matchedTokenCount(
  state: ConsumerRequestState,
  computedTokenCount: number,
  recomputeThreshold: number,
): number {
  if (state.kind !== 'offered') return 0
  const missing = state.tokenEnd - computedTokenCount
  return missing <= 0 || missing < recomputeThreshold ? 0 : missing
}
