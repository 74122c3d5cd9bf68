/** Tests of the tests: xavier with one rule broken fails the clause that is to notice. */
import { runConnectorClause } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import { conformanceTarget } from './conformance-target.ts'
import { ruleMutants } from './mutants/rule-mutants.ts'

test.each(ruleMutants)('$name: the suite fails, in $clause', async ({ clause, factory }) => {
  const outcome = await runConnectorClause(clause, { ...conformanceTarget, factory })
  expect(outcome.kind).toBe('failed')
})

test('the same clauses pass when nothing is broken', async () => {
  for (const clause of new Set(ruleMutants.map((mutant) => mutant.clause))) {
    expect(await runConnectorClause(clause, conformanceTarget), clause).toEqual({ kind: 'passed' })
  }
})
