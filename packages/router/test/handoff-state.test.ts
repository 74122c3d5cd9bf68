/** Whose a handoff is, pair by pair; and the page that shows it. */
import { readFileSync } from 'node:fs'
import type { Instant } from '@kvferry/connector-api'
import { diagramsOf, testMachine, transitionDiagram } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import {
  handoffTransitions,
  stepHandoff,
  type HandoffEvent,
  type HandoffState,
} from '../src/handoff-state.ts'
import { handoff } from './support/fake-engine.ts'

const whileAbsent = { ask: 'absent:', leave: 'absent:', refused: 'absent:', taken: 'absent:' }

testMachine('handoff', {
  step: (state: HandoffState, event: HandoffEvent, now: Instant) =>
    stepHandoff(state, event, now, undefined),
  now: 0 as Instant,
  table: handoffTransitions,
  states: {
    awaited: { kind: 'awaited' },
    absent: { kind: 'absent' },
    held: { kind: 'held', handoff },
    offered: { kind: 'offered', handoff },
    taken: { kind: 'taken' },
    returned: { kind: 'returned' },
  },
  events: {
    answered: { kind: 'answered', handoff },
    'answered without': { kind: 'answered', handoff: null },
    ask: { kind: 'ask' },
    leave: { kind: 'leave' },
    refused: { kind: 'refused' },
    taken: { kind: 'taken' },
  },
  expected: {
    awaited: { answered: 'held:', 'answered without': 'absent: recompute' },
    absent: whileAbsent,
    held: { ask: 'offered:', leave: 'returned: give-back' },
    offered: { refused: 'returned: give-back', taken: 'taken:' },
  },
})

test('what is given back is what prefill gave', () => {
  const { effects } = stepHandoff(
    { kind: 'offered', handoff },
    { kind: 'refused' },
    0 as Instant,
    undefined,
  )
  expect(effects).toEqual([{ kind: 'give-back', handoff }])
})

test('the README shows the table', () => {
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  expect(diagramsOf(readme)).toEqual([transitionDiagram(handoffTransitions)])
})
