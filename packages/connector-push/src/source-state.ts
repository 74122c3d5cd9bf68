/**
 * One request on the producer's worker half, as a pure machine: from its announcement until its blocks are
 * the engine's again. Blocks that WRITEs read are never given back, whatever else happened; blocks that
 * nobody has registered for are given back when their lease ends. Called by rendezvous-table.ts.
 */
import {
  assertNever,
  instantPlus,
  type AnyConnectorError,
  type Instant,
} from '@kvferry/connector-api'
import {
  checked,
  closed,
  refuse,
  type Step,
  type TransitionTable,
} from '@kvferry/connector-api/protocol'

export type SourceState =
  /** Its prompt is being computed. */
  | { readonly kind: 'computing' }
  /** The prompt's KV is there, or behind a fence. */
  | { readonly kind: 'computed' }
  /** The engine has ended it and keeps its blocks for the consumer. */
  | { readonly kind: 'held'; readonly deadline: Instant }
  /** The engine has ended it without KV to give; WRITEs of it are still open. */
  | { readonly kind: 'draining' }
  | { readonly kind: 'ended' }

export type SourceEvent =
  | { readonly kind: 'compute-end' }
  /** The engine took its blocks away, and will compute it again. */
  | { readonly kind: 'preempt' }
  /** It ended with its prompt's KV in blocks that the engine keeps. */
  | { readonly kind: 'finish' }
  /** It ended without, and the engine keeps its blocks all the same, since WRITEs may read them. */
  | { readonly kind: 'abort'; readonly error: AnyConnectorError }
  /** It ended without, and nothing of it was ever handed over: the engine keeps nothing. */
  | { readonly kind: 'withdraw'; readonly error: AnyConnectorError }
  /** Its answer reached nobody: no consumer that has not come yet will come. */
  | { readonly kind: 'undelivered' }
  /** A consumer asks that it be kept. */
  | { readonly kind: 'renew' }
  /** A consumer rank has had its part, or does without. */
  | { readonly kind: 'part-end' }
  | { readonly kind: 'timer' }

/** Of the consumer ranks' parts of this request. */
export interface SourceContext {
  /** Registered, and not ended. */
  readonly openCount: number
  /** Ended, or given up before it was registered. */
  readonly endedCount: number
  /** How many it takes: one per consumer rank that this rank writes to; null while no consumer is known. */
  readonly expectedCount: number | null
  readonly leaseDurationMs: number
}

export type SourceEffect =
  /** Its registrations fail. */
  | { readonly kind: 'fail-parts'; readonly error: AnyConnectorError }
  | { readonly kind: 'preempt-parts' }
  | { readonly kind: 'arm'; readonly at: Instant }
  /** Its blocks are the engine's again. */
  | { readonly kind: 'report-sent' }
  | { readonly kind: 'count-expired' }
  | { readonly kind: 'count-undelivered' }

type Kind = SourceState['kind']

export const sourceTransitions: TransitionTable<Kind, SourceEvent['kind']> = {
  computing: {
    'compute-end': ['computed'],
    preempt: ['computing'],
    // Of an engine that never said what its forward computed: there is no KV to give.
    finish: ['draining', 'ended'],
    abort: ['draining', 'ended'],
    withdraw: ['ended'],
    renew: ['computing'],
    'part-end': ['computing'],
  },
  computed: {
    'compute-end': ['computed'],
    preempt: ['computing'],
    finish: ['held', 'ended'],
    abort: ['draining', 'ended'],
    renew: ['computed'],
    'part-end': ['computed'],
  },
  held: {
    undelivered: ['held', 'ended'],
    renew: ['held'],
    'part-end': ['held', 'ended'],
    timer: ['held', 'ended'],
  },
  draining: {
    undelivered: ['draining'],
    renew: ['draining'],
    'part-end': ['draining', 'ended'],
  },
  ended: {},
}

type SourceStep = Step<SourceState, SourceEffect>

const machine = 'source'
const stay = (state: SourceState, ...effects: readonly SourceEffect[]): SourceStep => ({
  state,
  effects,
})
const reportEnd = (...before: readonly SourceEffect[]): SourceStep =>
  stay({ kind: 'ended' }, ...before, { kind: 'report-sent' })

/** Every consumer rank that there is has had its part, or does without. */
const isServed = ({ openCount, endedCount, expectedCount }: SourceContext): boolean =>
  openCount === 0 && expectedCount !== null && endedCount >= expectedCount

function step(
  state: SourceState,
  event: SourceEvent,
  now: Instant,
  context: SourceContext,
): SourceStep {
  switch (state.kind) {
    case 'computing':
    case 'computed':
      return stepUnfinished(state, event, now, context)
    case 'held':
      return stepHeld(state, event, now, context)
    case 'draining':
      return event.kind === 'part-end' && context.openCount === 0 ? reportEnd() : stay(state)
    case 'ended':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

function stepUnfinished(
  state: Extract<SourceState, { kind: 'computing' | 'computed' }>,
  event: SourceEvent,
  now: Instant,
  context: SourceContext,
): SourceStep {
  switch (event.kind) {
    case 'compute-end':
      return stay({ kind: 'computed' })
    case 'preempt':
      return stay({ kind: 'computing' }, { kind: 'preempt-parts' })
    case 'finish': {
      if (state.kind === 'computing') return giveUp(closed('prefill'), context)
      if (isServed(context)) return reportEnd()
      const deadline = instantPlus(now, context.leaseDurationMs)
      return stay({ kind: 'held', deadline }, { kind: 'arm', at: deadline })
    }
    case 'abort':
      return giveUp(event.error, context)
    case 'withdraw':
      return stay({ kind: 'ended' }, { kind: 'fail-parts', error: event.error })
    case 'part-end':
    case 'renew':
      return stay(state)
    case 'undelivered':
    case 'timer':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Its parts end one by one, some of them at once: each is a `part-end`. */
const giveUp = (error: AnyConnectorError, { openCount }: SourceContext): SourceStep =>
  openCount === 0 ? reportEnd() : stay({ kind: 'draining' }, { kind: 'fail-parts', error })

function stepHeld(
  state: Extract<SourceState, { kind: 'held' }>,
  event: SourceEvent,
  now: Instant,
  context: SourceContext,
): SourceStep {
  const isTaken = context.openCount > 0
  const renewed = instantPlus(now, context.leaseDurationMs)
  switch (event.kind) {
    case 'renew':
      // The timer of before finds the later deadline.
      return stay(now < state.deadline || isTaken ? { kind: 'held', deadline: renewed } : state)
    case 'part-end':
      return isServed(context) ? reportEnd() : stay(state)
    case 'undelivered':
      // One rank that came, or did without, speaks for a consumer that is there.
      if (isTaken || context.endedCount > 0) return stay(state)
      return reportEnd({ kind: 'count-undelivered' })
    case 'timer': {
      if (now < state.deadline) return stay(state, { kind: 'arm', at: state.deadline })
      // A registration ends by itself, in one way or the other; until then its WRITE may read.
      if (isTaken) return stay({ kind: 'held', deadline: renewed }, { kind: 'arm', at: renewed })
      return reportEnd({ kind: 'count-expired' })
    }
    case 'compute-end':
    case 'preempt':
    case 'finish':
    case 'abort':
    case 'withdraw':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepSource = checked(machine, sourceTransitions, step)

/** The engine keeps its blocks until it hears of the end. */
export const isHeld = ({ kind }: SourceState): boolean => kind === 'held' || kind === 'draining'
