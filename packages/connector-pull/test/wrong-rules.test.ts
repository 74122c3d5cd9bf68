/**
 * Tests of the tests: with each of five rules deliberately broken, the conformance suite, the simulation and
 * the explorer must fail. A seed that is known to notice is tried first, then others.
 */
import { describe, expect, test } from 'vitest'
import { runConnectorClause } from '@kvferry/connector-api/conformance'
import { explore, planSimulation, runSimulation } from '@kvferry/connector-api/testing'
import { createClusterModel, type Bounds } from './model/cluster-model.ts'
import { wrongRules, wrongShareRules } from './model/rules.ts'
import { ruleMutants } from './mutants/rule-mutants.ts'
import { simulationTarget } from './simulation-target.ts'

const seedCountMax = 400

/** Where to look first: a seed, and the smallest scope in which the rule matters. */
const hints: Readonly<
  Record<string, Pick<Bounds, 'faults' | 'aborts' | 'seconds'> & { seed: number }>
> = {
  'free at abort': { seed: 16, faults: 0, aborts: 1, seconds: 0 },
  'trust deregistration': { seed: 8, faults: 0, aborts: 0, seconds: 1 },
  'ignore epoch': { seed: 46, faults: 1, aborts: 0, seconds: 0 },
  'accept forged token': { seed: 231, faults: 0, aborts: 0, seconds: 0 },
  'double report': { seed: 1, faults: 0, aborts: 1, seconds: 0 },
}

for (const { name, clause, factory } of ruleMutants) {
  const { seed: first, ...bounds } = hints[name]!

  describe(`${name}:`, () => {
    test(`the suite fails, in ${clause}`, async () => {
      expect((await runConnectorClause(clause, { factory })).kind).toBe('failed')
    })

    test('the simulation fails', { timeout: 240_000 }, async () => {
      const seeds = [first, ...Array.from({ length: seedCountMax }, (_, index) => index + 1)]
      for (const seed of seeds) {
        const plan = planSimulation(seed)
        const { violations } = await runSimulation({ ...simulationTarget, factory }, plan)
        if (violations.length > 0) return
      }
      expect.fail(`no seed of ${seedCountMax} notices`)
    })

    test('the explorer fails', { timeout: 120_000 }, () => {
      const jobs = { A: { producer: 'p0', consumers: ['d0'] } } as const
      const scope = { ...bounds, jobs, isHandshakeStepwise: false }
      const model = createClusterModel(wrongRules[name]!, scope)
      const { counterExample } = explore(model, { stateCountMax: 100_000 })
      expect(counterExample).not.toBe(null)
    })
  })
}

test('the five rules are the ones in question', () => {
  const names = ruleMutants.map(({ name }) => name)
  expect(names.sort()).toEqual(Object.keys(wrongRules).sort())
  expect(names.sort()).toEqual(Object.keys(hints).sort())
})

test.each(Object.entries(wrongShareRules))(
  'other TP sizes, %s: the explorer fails',
  { timeout: 120_000 },
  (_, { rules, ranks, faults }) => {
    const jobs = { B: { producer: 'p0', consumers: ['d0'] } } as const
    const scope = { jobs, ranks, faults, aborts: 0, seconds: 0, isHandshakeStepwise: false }
    const { counterExample } = explore(createClusterModel(rules, scope), { stateCountMax: 100_000 })
    // A rule of safety, or the machine itself: a load that has ended hears of a share.
    expect(counterExample?.problem).toMatch(/^S[12]|part-failed in state ended/)
  },
)
