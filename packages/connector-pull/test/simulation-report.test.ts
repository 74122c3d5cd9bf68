import { expect, test } from 'vitest'
import { wrapFactory } from '@kvferry/connector-api/conformance'
import { planSimulation, runSimulation, verifySeed } from '@kvferry/connector-api/testing'
import { pull } from '../src/index.ts'
import { ruleMutants } from './mutants/rule-mutants.ts'
import { simulationTarget } from './simulation-target.ts'

test('a failing seed tells how to repeat it, what is left of its plan, and what happened', async () => {
  const { factory } = ruleMutants.find(({ name }) => name === 'free at abort')!
  const target = { ...simulationTarget, factory }
  let seed = 1
  while ((await runSimulation(target, planSimulation(seed))).violations.length === 0) seed += 1
  const { failure } = await verifySeed('pull', target, seed)
  const [head, ...lines] = failure!.split('\n')
  expect(head).toBe(
    `seed ${seed} fails; to repeat it: npm run sim -- --connector pull --seed ${seed}`,
  )
  expect(lines.join()).toMatch(/shrunk from \d+ jobs and \d+ faults/)
  // One request that is given up is all it takes.
  expect(lines.filter((line) => line.startsWith('  job '))).toHaveLength(1)
  expect(lines.join()).toContain('VIOLATION')
})

test('a connector that behaves differently in a second run is found out', async () => {
  const plans = Array.from({ length: 300 }, (_, index) => planSimulation(index + 1))
  const { seed, size } = plans.find(({ faults }) => faults.length === 0)!
  const countOfRun = size.producers.length + size.consumers.length
  let engineCount = 0
  const factory = wrapFactory(pull, {
    scheduler() {
      engineCount += 1
      // Nobody dies in this seed: each engine of a run has one life.
      const isSecondRun = engineCount > countOfRun
      const nothing = () => ({ tokens: 0, isAsync: false })
      return isSecondRun ? { getNumNewMatchedTokens: nothing } : {}
    },
  })
  const { failure } = await verifySeed('pull', { ...simulationTarget, factory }, seed)
  expect(failure).toContain('two runs of one seed differ')
})
