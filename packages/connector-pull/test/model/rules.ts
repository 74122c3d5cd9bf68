/**
 * The step functions as the model calls them, so that a deliberately wrong rule can take the place of a
 * right one and the exploration be seen to notice.
 */
import {
  stepConsumerRequest,
  stepProducerRequest,
  type LoadOutcome,
} from '@kvferry/connector-api/protocol'
import { stepConnection } from '../../src/connection-state.ts'
import { stepLease } from '../../src/lease-state.ts'
import { stepLoad } from '../../src/load-state.ts'

export interface Rules {
  readonly load: typeof stepLoad
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
  lease: stepLease,
  connection: stepConnection,
  consumer: stepConsumerRequest,
  producer: stepProducerRequest,
  readyEvent: 'peer-ready',
  believesForgeries: false,
  knowsLives: true,
}

export const stagedRules: Rules = { ...shippedRules, readyEvent: 'peer-ready-staged' }

const reportAtOnce = (outcome: LoadOutcome): ReturnType<typeof stepLoad> => ({
  state: { kind: 'ended', outcome, times: null },
  effects: [{ kind: 'report', outcome }],
})

const error = { code: 'ERR_KV_DEADLINE' } as never

/** Each breaks one rule. */
export const wrongRules: Readonly<Record<string, Rules>> = {
  'free at abort': {
    ...shippedRules,
    load: (state, event, now, context) =>
      event.kind === 'abort' && (state.kind === 'reading' || state.kind === 'overdue')
        ? reportAtOnce({ kind: 'aborted' })
        : stepLoad(state, event, now, context),
  },
  'trust deregistration': {
    ...shippedRules,
    load: (state, event, now, context) =>
      event.kind === 'transfer-overdue'
        ? reportAtOnce({ kind: 'failed', error })
        : stepLoad(state, event, now, context),
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
