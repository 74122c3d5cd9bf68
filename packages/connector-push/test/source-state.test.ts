import { ConnectorError, type AnyConnectorError, type Instant } from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  sourceTransitions,
  stepSource,
  type SourceContext,
  type SourceEvent,
  type SourceState,
} from '../src/source-state.ts'

const now = 1_000 as Instant
const error: AnyConnectorError = new ConnectorError('ERR_KV_CLOSED', 'x', { what: 'x' })
const context = (
  openCount: number,
  endedCount: number,
  expectedCount: number | null,
): SourceContext => ({ openCount, endedCount, expectedCount, leaseDurationMs: 500 })

const held = (deadline: number): SourceState => ({ kind: 'held', deadline: deadline as Instant })
const states = {
  computing: { kind: 'computing' },
  computed: { kind: 'computed' },
  held: held(1_200),
  'held, over': held(1_000),
  draining: { kind: 'draining' },
  ended: { kind: 'ended' },
} satisfies Record<string, SourceState>
const events: Record<string, SourceEvent> = {
  'compute-end': { kind: 'compute-end' },
  preempt: { kind: 'preempt' },
  finish: { kind: 'finish' },
  abort: { kind: 'abort', error },
  withdraw: { kind: 'withdraw', error },
  undelivered: { kind: 'undelivered' },
  renew: { kind: 'renew' },
  'part-end': { kind: 'part-end' },
  timer: { kind: 'timer' },
}

/** The same machine under other circumstances: nobody came, somebody is being written to, all was had. */
const circumstances: Readonly<
  Record<string, { context: SourceContext; expected: Record<string, Record<string, string>> }>
> = {
  'nobody has registered': {
    context: context(0, 0, null),
    expected: {
      computed: { finish: 'held: arm-1500', abort: 'ended: report-sent' },
      computing: { finish: 'ended: report-sent', abort: 'ended: report-sent' },
      held: {
        undelivered: 'ended: count-undelivered report-sent',
        renew: 'held:',
        'part-end': 'held:',
        timer: 'held: arm-1200',
      },
      // Too late: its timer is about to ring.
      'held, over': {
        undelivered: 'ended: count-undelivered report-sent',
        renew: 'held:',
        'part-end': 'held:',
        timer: 'ended: count-expired report-sent',
      },
      draining: { undelivered: 'draining:', renew: 'draining:', 'part-end': 'ended: report-sent' },
    },
  },
  'one of two is being written to': {
    context: context(1, 1, 2),
    expected: {
      computed: { finish: 'held: arm-1500', abort: 'draining: fail-parts' },
      computing: { finish: 'draining: fail-parts', abort: 'draining: fail-parts' },
      held: {
        undelivered: 'held:',
        renew: 'held:',
        'part-end': 'held:',
        timer: 'held: arm-1200',
      },
      'held, over': {
        undelivered: 'held:',
        renew: 'held:',
        'part-end': 'held:',
        timer: 'held: arm-1500',
      },
      draining: { undelivered: 'draining:', renew: 'draining:', 'part-end': 'draining:' },
    },
  },
  'every consumer rank has had its part': {
    context: context(0, 2, 2),
    expected: {
      computed: { finish: 'ended: report-sent', abort: 'ended: report-sent' },
      computing: { finish: 'ended: report-sent', abort: 'ended: report-sent' },
      held: {
        undelivered: 'held:',
        renew: 'held:',
        'part-end': 'ended: report-sent',
        timer: 'held: arm-1200',
      },
      'held, over': {
        undelivered: 'held:',
        renew: 'held:',
        'part-end': 'ended: report-sent',
        timer: 'ended: count-expired report-sent',
      },
      draining: { undelivered: 'draining:', renew: 'draining:', 'part-end': 'ended: report-sent' },
    },
  },
}
const whileComputing = {
  computing: {
    'compute-end': 'computed:',
    preempt: 'computing: preempt-parts',
    withdraw: 'ended: fail-parts',
    renew: 'computing:',
    'part-end': 'computing:',
  },
  computed: {
    'compute-end': 'computed:',
    preempt: 'computing: preempt-parts',
    renew: 'computed:',
    'part-end': 'computed:',
  },
}

const run = (state: SourceState, event: SourceEvent, of: SourceContext) =>
  stepSource(state, event, now, of)

/** Each circumstance is part of a state's name, so that one list covers the whole table. */
interface Situation {
  readonly kind: SourceState['kind']
  readonly state: SourceState
  readonly context: SourceContext
}
const situations = Object.fromEntries(
  Object.entries(circumstances).flatMap(([what, { context: of }]) =>
    Object.entries(states).map(([name, state]): [string, Situation] => [
      `${name}, ${what}`,
      { kind: state.kind, state, context: of },
    ]),
  ),
)

testMachine('source', {
  step: ({ state, context: of }: Situation, event: SourceEvent) => {
    const { state: next, effects } = run(state, event, of)
    return { state: { kind: next.kind, state: next, context: of }, effects }
  },
  now,
  table: sourceTransitions,
  states: situations,
  events,
  show: (effect) => (effect.kind === 'arm' ? `arm-${effect.at}` : effect.kind),
  expected: Object.fromEntries(
    Object.entries(circumstances).flatMap(([what, { expected }]) =>
      Object.keys(states).map((name): [string, Record<string, string>] => [
        `${name}, ${what}`,
        { ...whileComputing[name as keyof typeof whileComputing], ...expected[name] },
      ]),
    ),
  ),
})

const deadlineOf = (state: SourceState): number => {
  if (state.kind !== 'held') throw new Error(`it is ${state.kind}`)
  return state.deadline
}

test('a consumer’s heartbeat keeps blocks that nobody is written to for a lease more (54)', () => {
  const { state } = run(held(1_200), { kind: 'renew' }, context(0, 0, null))
  expect(deadlineOf(state)).toBe(1_500)
})

test('a heartbeat does not revive a lease that is over, unless a WRITE reads the blocks', () => {
  const { state } = run(held(1_000), { kind: 'renew' }, context(0, 0, null))
  expect(deadlineOf(state)).toBe(1_000)
  const taken = run(held(1_000), { kind: 'renew' }, context(1, 0, 1))
  expect(deadlineOf(taken.state)).toBe(1_500)
})

test('blocks that a WRITE reads are not given back, however long ago their lease ended (3.7)', () => {
  let state: SourceState = held(0)
  for (let at = 0; at < 1e6; at += 10_000) {
    state = stepSource(state, { kind: 'timer' }, at as Instant, context(1, 0, 1)).state
    expect(state.kind).toBe('held')
  }
})
