import { describe, expect, test } from 'vitest'
import {
  agentClauses,
  createMemoryHarness,
  runAgentClause,
} from '@kvferry/connector-api/conformance'
import { byteMutants } from './mutants/byte-mutants.ts'
import { refusalMutants } from './mutants/refusal-mutants.ts'
import { reportMutants } from './mutants/report-mutants.ts'

const mutants = [...byteMutants, ...reportMutants, ...refusalMutants]

describe('each mutant fails the clause that names its mistake', () => {
  for (const { name, clause, ...mutation } of mutants) {
    test(`${clause}: ${name}`, async () => {
      const outcome = await runAgentClause(clause, createMemoryHarness({ seed: 9, ...mutation }))
      expect(outcome.kind).toBe('failed')
      // The clause noticed; it didn't trip over the mutant's own mistake.
      const { name: errorName, message } = (outcome as { error: Error }).error
      expect(`${errorName}: ${message}`).toMatch(/AssertionError|not settled/)
    })
  }
})

test('the same clauses pass when nothing is broken', async () => {
  const harness = createMemoryHarness({ seed: 9, wrapAgent: (agent) => ({ ...agent }) })
  for (const clause of new Set(mutants.map((mutant) => mutant.clause))) {
    const outcome = await runAgentClause(clause, harness)
    expect(outcome, clause).toEqual({ kind: 'passed' })
  }
})

test('clauses have ids of their group, in order, and no id twice', () => {
  const ids = agentClauses.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  const counts = new Map<string, number>()
  for (const id of ids) {
    const [group, number] = id.split('.') as [string, string]
    counts.set(group, (counts.get(group) ?? 0) + 1)
    expect(Number(number), id).toBe(counts.get(group))
  }
})

test('a need that the harness lacks skips the clause, with the reason', async () => {
  const harness = {
    ...createMemoryHarness({ seed: 1 }),
    unsupported: { 'peer-kill': 'the peer is a thread' },
  }
  expect(await runAgentClause('A9.1', harness)).toEqual({
    kind: 'skipped',
    reason: 'peer-kill: the peer is a thread',
  })
})
