/** Tests of the tests: push with one rule broken fails the clause, and the seed, that are to notice. */
import { runConnectorClause } from '@kvferry/connector-api/conformance'
import { planSimulation, runSimulation } from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { push } from '../src/index.ts'
import { leaveSlabsOfTheDead, ruleMutants } from './mutants/rule-mutants.ts'
import { simulationTarget } from './simulation-target.ts'

const newsKinds = ['push.done']

/** The first seed that notices; of the other rules the suite alone does. */
const seeds: Readonly<Record<string, number>> = {
  'free at abort': 3,
  'believe silence': 38,
  'answer a withdrawal at once': 116,
  'accept forged token': 74,
  'double report': 1,
  'free the source at its end': 1,
  'done when posted': 1,
  'post before the fence': 1,
  'a failed WRITE is done': 23,
  'ignore the layout': 17,
}

for (const { name, clause, factory } of ruleMutants) {
  describe(`${name}:`, () => {
    test(`the suite fails, in ${clause}`, async () => {
      expect((await runConnectorClause(clause, { factory, newsKinds })).kind).toBe('failed')
    })

    const seed = seeds[name]
    if (seed === undefined) return
    // A seed that is known to notice is tried first, then others: what plans hold may change.
    test(`the simulation fails, first tried at seed ${seed}`, { timeout: 240_000 }, async () => {
      const target = { ...simulationTarget, factory }
      for (const one of [seed, ...Array.from({ length: 400 }, (_, index) => index + 1)]) {
        const { violations } = await runSimulation(target, planSimulation(one))
        if (violations.length > 0) return
      }
      expect.fail('no seed of 400 notices')
    })
  })
}

// Among the seeds that push-slabs.sim.test.ts runs.
test('slabs of the dead are left: the simulation fails at seed 21', async () => {
  const target = { ...simulationTarget, factory: leaveSlabsOfTheDead, path: 'slabs' } as const
  const { violations } = await runSimulation(target, planSimulation(21))
  expect(violations.map(({ rule }) => rule)).toContain('S1')
})

test('the same clauses pass when nothing is broken', async () => {
  for (const clause of new Set(ruleMutants.map((mutant) => mutant.clause))) {
    const outcome = await runConnectorClause(clause, { factory: push, newsKinds })
    expect(outcome, clause).toEqual({ kind: 'passed' })
  }
})

test('every seed belongs to a rule', () => {
  const names = ruleMutants.map(({ name }) => name)
  expect(names).toEqual(expect.arrayContaining(Object.keys(seeds)))
})
