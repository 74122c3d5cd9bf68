/**
 * The step functions as the model calls them, so that a deliberately wrong rule can take the place of a
 * right one and the exploration be seen to notice.
 */
import {
  stepConsumerRequest,
  stepLoad,
  stepProducerRequest,
  type LoadOutcome,
} from '@kvferry/connector-api/protocol'
import { stepConnection } from '../../src/connection-state.ts'
import { stepLease } from '../../src/lease-state.ts'
import { stepRead } from '../../src/read-state.ts'
import type { Ranks } from './state.ts'

export interface Rules {
  readonly load: typeof stepLoad
  readonly read: typeof stepRead
  readonly lease: typeof stepLease
  readonly connection: typeof stepConnection
  readonly consumer: typeof stepConsumerRequest
  readonly producer: typeof stepProducerRequest
  /** Whether a notification with a token that was never given out is believed. */
  readonly believesForgeries: boolean
  /** How a load starts: staged ones read only after their lease was granted. */
  readonly readyEvent: 'peer-ready' | 'peer-ready-staged'
  /** Whether a new life of an engine is told from the former one. */
  readonly knowsLives: boolean
}

export const shippedRules: Rules = {
  load: stepLoad,
  read: stepRead,
  lease: stepLease,
  connection: stepConnection,
  consumer: stepConsumerRequest,
  producer: stepProducerRequest,
  readyEvent: 'peer-ready',
  believesForgeries: false,
  knowsLives: true,
}

export const stagedRules: Rules = { ...shippedRules, readyEvent: 'peer-ready-staged' }

const reportAtOnce = (outcome: LoadOutcome): ReturnType<typeof stepRead> => ({
  state: { kind: 'ended', outcome, times: null },
  effects: [{ kind: 'report', outcome }],
})

const error = { code: 'ERR_KV_DEADLINE' } as never

/** Each breaks one rule. */
export const wrongRules: Readonly<Record<string, Rules>> = {
  'free at abort': {
    ...shippedRules,
    read: (state, event, now, context) =>
      event.kind === 'abort' && (state.kind === 'reading' || state.kind === 'overdue')
        ? reportAtOnce({ kind: 'aborted' })
        : stepRead(state, event, now, context),
  },
  'trust deregistration': {
    ...shippedRules,
    read: (state, event, now, context) =>
      event.kind === 'transfer-overdue'
        ? reportAtOnce({ kind: 'failed', error })
        : stepRead(state, event, now, context),
  },
  'ignore epoch': { ...shippedRules, knowsLives: false },
  'accept forged token': { ...shippedRules, believesForgeries: true },
  'double report': {
    ...shippedRules,
    load: (state, event, now, context) => {
      const next = stepLoad(state, event, now, context)
      const reports = next.effects.filter(({ kind }) => kind === 'report')
      return { ...next, effects: [...next.effects, ...reports] }
    },
  },
}

/** Each breaks a rule of engines whose TP sizes differ, and which of the two has more ranks. */
export const wrongShareRules: Readonly<
  Record<string, { readonly rules: Rules; readonly ranks: Ranks; readonly faults: number }>
> = {
  'free after the first reader': {
    rules: {
      ...shippedRules,
      lease: (state, event, now, context) =>
        stepLease(
          state,
          'share' in event ? { ...event, share: { ...event.share, count: 1 } } : event,
          ...([now, context] as const),
        ),
    },
    ranks: { producer: 1, consumer: 2 },
    faults: 0,
  },
  'loaded with the first share': {
    rules: {
      ...shippedRules,
      load: (state, event, now, context) =>
        stepLoad(
          event.kind === 'part-done' && state.kind === 'waiting'
            ? { ...state, openCount: 1 }
            : state,
          ...([event, now, context] as const),
        ),
    },
    ranks: { producer: 2, consumer: 1 },
    faults: 0,
  },
  'failed with the first share': {
    rules: {
      ...shippedRules,
      load: (state, event, now, context) =>
        stepLoad(
          event.kind === 'part-failed' && state.kind === 'waiting'
            ? { ...state, openCount: 1 }
            : state,
          ...([event, now, context] as const),
        ),
    },
    ranks: { producer: 2, consumer: 1 },
    faults: 1,
  },
}
