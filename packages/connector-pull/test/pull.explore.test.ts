import { readFileSync } from 'node:fs'
import { describe, test } from 'vitest'
import { exploreWhole } from '@kvferry/connector-api/testing'
import { createClusterModel, type Bounds } from './model/cluster-model.ts'
import { shippedRules, stagedRules } from './model/rules.ts'

const none = { faults: 0, aborts: 0, seconds: 0, isHandshakeStepwise: false } as const
const job = (producer: 'p0' | 'p1', ...consumers: ('d0' | 'd1')[]) => ({ producer, consumers })

/** Small enough for every test run. A lease lasts two seconds; A has two blocks, B one. */
const scopes: Readonly<Record<string, Bounds & { readonly stateCountMin: number }>> = {
  'one job, one fault at any point': {
    jobs: { A: job('p0', 'd0') },
    faults: 1,
    aborts: 0,
    seconds: 3,
    isHandshakeStepwise: true,
    stateCountMin: 18_000,
  },
  'one job, given up at any point': {
    jobs: { A: job('p0', 'd0') },
    faults: 0,
    aborts: 1,
    seconds: 4,
    isHandshakeStepwise: true,
    stateCountMin: 6_500,
  },
  'staged: one job, one fault at any point': {
    ...none,
    jobs: { A: job('p0', 'd0') },
    faults: 1,
    seconds: 3,
    stateCountMin: 11_000,
  },
  'one handoff, used by two consumers': {
    ...none,
    jobs: { B: job('p0', 'd0', 'd1') },
    seconds: 1,
    stateCountMin: 25_000,
  },
  'two producer ranks for one: given up at any point': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 2, consumer: 1 },
    aborts: 1,
    stateCountMin: 3_300,
  },
  'one producer rank for two: given up at any point': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 1, consumer: 2 },
    aborts: 1,
    stateCountMin: 3_300,
  },
  'two jobs of one producer, for one consumer': {
    ...none,
    jobs: { A: job('p0', 'd0'), B: job('p0', 'd0') },
    stateCountMin: 9_000,
  },
  'two jobs, two producers, two consumers': {
    ...none,
    jobs: { A: job('p0', 'd0'), B: job('p1', 'd1') },
    stateCountMin: 7_500,
  },
}

/** KVFERRY_EXPLORE=deep: minutes instead of seconds. */
const deepScopes: typeof scopes = {
  'one job, a fault and an abort at any point': {
    jobs: { A: job('p0', 'd0') },
    faults: 1,
    aborts: 1,
    seconds: 4,
    isHandshakeStepwise: true,
    stateCountMin: 18_000,
  },
  'one handoff, used by two consumers, over a whole lease': {
    ...none,
    jobs: { B: job('p0', 'd0', 'd1') },
    seconds: 3,
    stateCountMin: 25_000,
  },
  'two producer ranks for one, over a whole lease': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 2, consumer: 1 },
    faults: 1,
    seconds: 3,
    stateCountMin: 10_000,
  },
  'one producer rank for two: given up at any point, over a whole lease': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 1, consumer: 2 },
    aborts: 1,
    seconds: 3,
    stateCountMin: 3_300,
  },
  'one producer rank for two: one handoff, used by two consumers': {
    ...none,
    jobs: { B: job('p0', 'd0', 'd1') },
    ranks: { producer: 1, consumer: 2 },
    stateCountMin: 10_000,
  },
  'one producer rank for two: one job, one fault at any point': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    ranks: { producer: 1, consumer: 2 },
    faults: 1,
    stateCountMin: 10_000,
  },
  'two jobs, two producers, two consumers, one fault at any point': {
    ...none,
    jobs: { A: job('p0', 'd0'), B: job('p1', 'd1') },
    faults: 1,
    stateCountMin: 50_000,
  },
  'two jobs, two producers, two consumers, over a whole lease': {
    ...none,
    jobs: { A: job('p0', 'd0'), B: job('p1', 'd1') },
    seconds: 3,
    stateCountMin: 50_000,
  },
  'one job, two faults': {
    ...none,
    jobs: { B: job('p0', 'd0') },
    faults: 2,
    seconds: 3,
    stateCountMin: 10_000,
  },
}

/** Where the sizes of the small scopes stand. */
const page = readFileSync(
  new URL('../../../docs/reference/verification.md', import.meta.url),
  'utf8',
)
const isDeep = process.env['KVFERRY_EXPLORE'] === 'deep'
const stateCountMax = isDeep ? 3_000_000 : 200_000

describe('pull: whatever comes first, no rule is broken', () => {
  for (const [name, { stateCountMin, ...bounds }] of Object.entries(isDeep ? deepScopes : scopes)) {
    const rules = name.startsWith('staged') ? stagedRules : shippedRules
    test(name, { timeout: isDeep ? 1_800_000 : 120_000 }, () => {
      const model = createClusterModel(rules, bounds)
      exploreWhole(model, {
        ...{ name, stateCountMax, stateCountMin, depthMin: 16 },
        ...(isDeep ? {} : { page }),
      })
    })
  }
})
