/**
 * One registration on the producer, as a pure machine: what becomes of the WRITEs into the blocks that a
 * consumer named. It ends when every byte is written, or when nothing writes any more: a consumer that
 * withdraws is answered only then. Called by write-table.ts; what is posted when, others decide.
 */
import { assertNever, type AnyConnectorError } from '../index.ts'
import { checked, refuse, type Step, type TransitionTable } from '../protocol/index.ts'

/** How a consumer's question for a withdrawal is answered. */
export type WithdrawAnswer = 'withdrawn' | 'written'

export type WriteState =
  /** Nothing is posted now, and something is still to be. */
  | { readonly kind: 'waiting' }
  | {
      readonly kind: 'writing'
      /** WRITEs without final status. */
      readonly postCount: number
      /** The prompt's last bytes are among what was posted. */
      readonly isLast: boolean
      /** The last WRITE tells the consumer by itself that all has landed. */
      readonly isNotified: boolean
    }
  /** The prefill starts anew (its request was preempted): what is posted must end first. */
  | { readonly kind: 'rewinding'; readonly postCount: number }
  /** Nothing more is posted; what is posted must end. `error` null: the consumer does not want it. */
  | {
      readonly kind: 'closing'
      readonly postCount: number
      readonly error: AnyConnectorError | null
    }
  | { readonly kind: 'ended'; readonly outcome: 'written' | 'failed' | 'withdrawn' }

export type WriteEvent =
  | { readonly kind: 'post'; readonly isLast: boolean; readonly isNotified: boolean }
  | { readonly kind: 'post-fail'; readonly error: AnyConnectorError }
  | { readonly kind: 'write-done' }
  | { readonly kind: 'write-fail'; readonly error: AnyConnectorError }
  /** The consumer asks for it, and waits for the answer. */
  | { readonly kind: 'withdraw' }
  /** The consumer is gone: nobody waits. */
  | { readonly kind: 'leave' }
  /** The prefill ended without KV. */
  | { readonly kind: 'source-fail'; readonly error: AnyConnectorError }
  | { readonly kind: 'preempt' }

export type WriteEffect =
  | { readonly kind: 'answer'; readonly answer: WithdrawAnswer }
  /** All has landed and no WRITE says so. */
  | { readonly kind: 'notify' }
  /** All has landed: the consumer gets the measurements, and the news a second way. */
  | { readonly kind: 'tell-done' }
  | { readonly kind: 'tell-failed'; readonly error: AnyConnectorError }
  /** What was computed meanwhile may be posted. */
  | { readonly kind: 'resume' }
  | { readonly kind: 'end' }

type Kind = WriteState['kind']

export const writeTransitions: TransitionTable<Kind, WriteEvent['kind']> = {
  waiting: {
    post: ['writing'],
    'post-fail': ['ended'],
    withdraw: ['ended'],
    leave: ['ended'],
    'source-fail': ['ended'],
    preempt: ['waiting'],
  },
  writing: {
    post: ['writing'],
    'post-fail': ['closing'],
    'write-done': ['writing', 'waiting', 'ended'],
    'write-fail': ['closing', 'ended'],
    withdraw: ['writing', 'closing'],
    leave: ['writing', 'closing'],
    'source-fail': ['writing', 'closing'],
    preempt: ['writing', 'rewinding'],
  },
  rewinding: {
    'write-done': ['rewinding', 'waiting'],
    'write-fail': ['closing', 'ended'],
    withdraw: ['closing'],
    leave: ['closing'],
    'source-fail': ['closing'],
    preempt: ['rewinding'],
  },
  closing: {
    'write-done': ['closing', 'ended'],
    'write-fail': ['closing', 'ended'],
    withdraw: ['closing'],
    leave: ['closing'],
    'source-fail': ['closing'],
    preempt: ['closing'],
  },
  ended: { withdraw: ['ended'], leave: ['ended'], 'source-fail': ['ended'], preempt: ['ended'] },
}

type WriteStep = Step<WriteState, WriteEffect>

const machine = 'write'
const stay = (state: WriteState, ...effects: readonly WriteEffect[]): WriteStep => ({
  state,
  effects,
})

const withdrawn: WriteStep = {
  state: { kind: 'ended', outcome: 'withdrawn' },
  effects: [{ kind: 'answer', answer: 'withdrawn' }, { kind: 'end' }],
}

function fail(error: AnyConnectorError): WriteStep {
  const state: WriteState = { kind: 'ended', outcome: 'failed' }
  return stay(
    state,
    { kind: 'tell-failed', error },
    { kind: 'answer', answer: 'withdrawn' },
    {
      kind: 'end',
    },
  )
}

function step(state: WriteState, event: WriteEvent): WriteStep {
  switch (state.kind) {
    case 'waiting':
      return stepWaiting(state, event)
    case 'writing':
      return stepWriting(state, event)
    case 'rewinding':
      return stepRewinding(state, event)
    case 'closing':
      return stepClosing(state, event)
    case 'ended':
      return stepEnded(state, event)
    default:
      return assertNever(state)
  }
}

function stepWaiting(
  state: Extract<WriteState, { kind: 'waiting' }>,
  event: WriteEvent,
): WriteStep {
  switch (event.kind) {
    case 'post': {
      const { isLast, isNotified } = event
      return stay({ kind: 'writing', postCount: 1, isLast, isNotified })
    }
    case 'post-fail':
    case 'source-fail':
      return fail(event.error)
    case 'withdraw':
    case 'leave':
      return withdrawn
    case 'preempt':
      return stay(state)
    case 'write-done':
    case 'write-fail':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepWriting(
  state: Extract<WriteState, { kind: 'writing' }>,
  event: WriteEvent,
): WriteStep {
  const { postCount, isLast } = state
  switch (event.kind) {
    case 'post': {
      if (isLast) return refuse(machine, state, event)
      const { isNotified } = event
      return stay({ kind: 'writing', postCount: postCount + 1, isLast: event.isLast, isNotified })
    }
    case 'post-fail':
      if (isLast) return refuse(machine, state, event)
      return stay({ kind: 'closing', postCount, error: event.error })
    case 'write-done':
      return written(state)
    case 'write-fail':
      return closed(postCount - 1, event.error)
    case 'withdraw':
    case 'leave':
      // Everything is on its way: how it ends is the answer.
      return stay(isLast ? state : { kind: 'closing', postCount, error: null })
    case 'source-fail':
      return stay(isLast ? state : { kind: 'closing', postCount, error: event.error })
    case 'preempt':
      return stay(isLast ? state : { kind: 'rewinding', postCount })
    default:
      return assertNever(event)
  }
}

function written(state: Extract<WriteState, { kind: 'writing' }>): WriteStep {
  const postCount = state.postCount - 1
  if (postCount > 0) return stay({ ...state, postCount })
  if (!state.isLast) return stay({ kind: 'waiting' })
  const notify: readonly WriteEffect[] = state.isNotified ? [] : [{ kind: 'notify' }]
  return stay(
    { kind: 'ended', outcome: 'written' },
    ...notify,
    { kind: 'tell-done' },
    {
      kind: 'answer',
      answer: 'written',
    },
    { kind: 'end' },
  )
}

function closed(postCount: number, error: AnyConnectorError | null): WriteStep {
  if (postCount > 0) return stay({ kind: 'closing', postCount, error })
  return error === null ? withdrawn : fail(error)
}

function stepRewinding(
  { postCount }: Extract<WriteState, { kind: 'rewinding' }>,
  event: WriteEvent,
): WriteStep {
  switch (event.kind) {
    case 'write-done':
      if (postCount > 1) return stay({ kind: 'rewinding', postCount: postCount - 1 })
      return stay({ kind: 'waiting' }, { kind: 'resume' })
    case 'write-fail':
      return closed(postCount - 1, event.error)
    case 'withdraw':
    case 'leave':
      return stay({ kind: 'closing', postCount, error: null })
    case 'source-fail':
      return stay({ kind: 'closing', postCount, error: event.error })
    case 'preempt':
      return stay({ kind: 'rewinding', postCount })
    case 'post':
    case 'post-fail':
      return refuse(machine, { kind: 'rewinding' }, event)
    default:
      return assertNever(event)
  }
}

function stepClosing(
  state: Extract<WriteState, { kind: 'closing' }>,
  event: WriteEvent,
): WriteStep {
  const { postCount, error } = state
  switch (event.kind) {
    case 'write-done':
      return closed(postCount - 1, error)
    case 'write-fail':
      return closed(postCount - 1, error)
    case 'withdraw':
    case 'leave':
      return stay({ kind: 'closing', postCount, error: null })
    case 'source-fail':
    case 'preempt':
      return stay(state)
    case 'post':
    case 'post-fail':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepEnded(state: Extract<WriteState, { kind: 'ended' }>, event: WriteEvent): WriteStep {
  if (event.kind !== 'withdraw') return stay(state)
  const answer: WithdrawAnswer = state.outcome === 'written' ? 'written' : 'withdrawn'
  return stay(state, { kind: 'answer', answer })
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepWrite = checked(machine, writeTransitions, step)

/** Something was handed to the agent and has no final status: its blocks are being read. */
export const openPostCount = (state: WriteState): number =>
  'postCount' in state ? state.postCount : 0
