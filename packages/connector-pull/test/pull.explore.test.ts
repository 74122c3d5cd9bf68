import { describe, expect, test } from 'vitest'
import { describeCounterExample, explore } from '@kvferry/connector-api/testing'
import { createClusterModel, type Bounds } from './model/cluster-model.ts'
import { shippedRules, stagedRules } from './model/rules.ts'

const none = { faults: 0, aborts: 0, seconds: 0, isHandshakeStepwise: false } as const
const job = (producer: 'p0' | 'p1', ...consumers: ('d0' | 'd1')[]) => ({ producer, consumers })

/** Small enough for every test run. A lease lasts two seconds; A has two blocks, B one. */
const scopes: Readonly<Record<string, Bounds>> = {
  'one job, one fault at any point': {
    jobs: { A: job('p0', 'd0') },
    faults: 1,
    aborts: 0,
    seconds: 3,
    isHandshakeStepwise: true,
  },
  'one job, given up at any point': {
    jobs: { A: job('p0', 'd0') },
    faults: 0,
    aborts: 1,
    seconds: 4,
    isHandshakeStepwise: true,
  },
  'staged: one job, one fault at any point': {
    ...none,
    jobs: { A: job('p0', 'd0') },
    faults: 1,
    seconds: 3,
  },
  'one handoff, used by two consumers': {
    ...none,
    jobs: { B: job('p0', 'd0', 'd1') },
    seconds: 1,
  },
  'two producer ranks for one: given up at any point': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 2, consumer: 1 },
    aborts: 1,
  },
  'one producer rank for two: given up at any point': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 1, consumer: 2 },
    aborts: 1,
  },
  'two jobs of one producer, for one consumer': {
    ...none,
    jobs: { A: job('p0', 'd0'), B: job('p0', 'd0') },
  },
  'two jobs, two producers, two consumers': {
    ...none,
    jobs: { A: job('p0', 'd0'), B: job('p1', 'd1') },
  },
}

/** KVFERRY_EXPLORE=deep: minutes instead of seconds. */
const deepScopes: Readonly<Record<string, Bounds>> = {
  'one job, a fault and an abort at any point': {
    jobs: { A: job('p0', 'd0') },
    faults: 1,
    aborts: 1,
    seconds: 4,
    isHandshakeStepwise: true,
  },
  'one handoff, used by two consumers, over a whole lease': {
    ...none,
    jobs: { B: job('p0', 'd0', 'd1') },
    seconds: 3,
  },
  'two producer ranks for one, over a whole lease': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 2, consumer: 1 },
    faults: 1,
    seconds: 3,
  },
  'one producer rank for two: given up at any point, over a whole lease': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 1, consumer: 2 },
    aborts: 1,
    seconds: 3,
  },
  'one producer rank for two: one handoff, used by two consumers': {
    ...none,
    jobs: { B: job('p0', 'd0', 'd1') },
    ranks: { producer: 1, consumer: 2 },
  },
  'one producer rank for two: one job, one fault at any point': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 1, consumer: 2 },
    faults: 1,
  },
  'one job, two faults': { ...none, jobs: { B: job('p0', 'd0') }, faults: 2, seconds: 3 },
}

const isDeep = process.env['KVFERRY_EXPLORE'] === 'deep'
const stateCountMax = isDeep ? 3_000_000 : 200_000

describe('pull: whatever comes first, no rule is broken', () => {
  for (const [name, bounds] of Object.entries(isDeep ? deepScopes : scopes)) {
    const rules = name.startsWith('staged') ? stagedRules : shippedRules
    test(name, { timeout: isDeep ? 1_800_000 : 120_000 }, () => {
      const result = explore(createClusterModel(rules, bounds), { stateCountMax })
      const { counterExample, stateCount, depth, isComplete } = result
      const { faults, aborts, seconds } = bounds
      console.info(
        `${name}: ${stateCount} states, ${depth} steps deep (${faults} faults, ${aborts} aborts, ${seconds} s)`,
      )
      if (counterExample !== null) expect.fail(describeCounterExample(counterExample))
      expect(isComplete).toBe(true)
      // A model that gets stuck at once finds nothing either.
      expect(depth).toBeGreaterThan(15)
    })
  }
})
