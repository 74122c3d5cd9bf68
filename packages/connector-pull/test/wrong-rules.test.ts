/**
 * Tests of the tests: with each of five rules deliberately broken, the conformance suite, the simulation and
 * the explorer must fail. A seed that is known to notice is tried first, then others.
 */
import { describe, expect, test } from 'vitest'
import { runConnectorClause } from '@kvferry/connector-api/conformance'
import { explore, planSimulation, runSimulation } from '@kvferry/connector-api/testing'
import { createClusterModel, type Bounds } from './model/cluster-model.ts'
import { wrongRules, wrongShareRules } from './model/rules.ts'
import { reasons } from './mutants/reasons.ts'
import { ruleMutants } from './mutants/rule-mutants.ts'
import { simulationTarget } from './simulation-target.ts'

const seedCountMax = 400

interface Hint extends Pick<Bounds, 'faults' | 'aborts' | 'seconds'> {
  readonly seed: number
  /** What the auditor and the explorer say of it. */
  readonly rules: RegExp
}

/** Where to look first: a seed, and the smallest scope in which the rule matters. */
const hints: Readonly<Record<string, Hint>> = {
  'free at abort': { seed: 16, faults: 0, aborts: 1, seconds: 0, rules: /^S1/ },
  'trust deregistration': { seed: 8, faults: 0, aborts: 0, seconds: 1, rules: /^S1/ },
  'ignore epoch': { seed: 46, faults: 1, aborts: 0, seconds: 0, rules: /^S[24]/ },
  'accept forged token': { seed: 231, faults: 0, aborts: 0, seconds: 0, rules: /^S2/ },
  'double report': {
    seed: 1,
    faults: 0,
    aborts: 1,
    seconds: 0,
    rules: /^once|^it throws: consumer request: received/,
  },
}

for (const { name, clause, factory } of ruleMutants) {
  const { seed: first, rules: broken, ...bounds } = hints[name]!

  describe(`${name}:`, () => {
    test(`the suite fails, in ${clause}`, async () => {
      const outcome = await runConnectorClause(clause, { factory })
      expect(outcome.kind).toBe('failed')
      expect((outcome as { readonly error: Error }).error.message).toMatch(reasons[name]!)
    })

    test('the simulation fails', { timeout: 240_000 }, async () => {
      const seeds = [first, ...Array.from({ length: seedCountMax }, (_, index) => index + 1)]
      for (const seed of seeds) {
        const plan = planSimulation(seed)
        const { violations } = await runSimulation({ ...simulationTarget, factory }, plan)
        if (violations.some(({ rule }) => broken.test(rule))) return
      }
      expect.fail(`in no seed of ${seedCountMax} it is ${broken.source}`)
    })

    test('the explorer fails', { timeout: 120_000 }, () => {
      const jobs = { A: { producer: 'p0', consumers: ['d0'] } } as const
      const scope = { ...bounds, jobs, isHandshakeStepwise: false }
      const model = createClusterModel(wrongRules[name]!, scope)
      const { counterExample } = explore(model, { stateCountMax: 100_000 })
      expect(counterExample?.problem).toMatch(broken)
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
