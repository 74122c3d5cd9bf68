import { readFileSync } from 'node:fs'
import { explore, exploreWhole } from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { createPushModel, type Bounds } from './model/push-model.ts'
import { shippedRules, type Rules } from './model/rules.ts'

const one = { ranks: [1], faults: 0, aborts: 0, preemptions: 0 } as const

/** Small enough for every test run, and seen whole. */
const scopes: Readonly<Record<string, Bounds & { readonly stateCountMin: number }>> = {
  'one fault at any point': { ...one, faults: 1, stateCountMin: 2_500 },
  'given up and preempted at any point': {
    ...{ ...one, aborts: 1, preemptions: 1 },
    stateCountMin: 3_000,
  },
  'a fault, and given up at any point': { ...one, faults: 1, aborts: 1, stateCountMin: 12_000 },
  'two faults': { ...one, faults: 2, stateCountMin: 14_000 },
}

/** KVFERRY_EXPLORE=deep: minutes instead of seconds. */
const deepScopes: typeof scopes = {
  'one job of two producer ranks': { ...one, ranks: [2], stateCountMin: 40_000 },
  'two producers, two consumers': { ...one, ranks: [1, 1], stateCountMin: 35_000 },
  'two ranks, a fault': { ...one, ranks: [2], faults: 1, stateCountMin: 100_000 },
  'two ranks, given up at any point': { ...one, ranks: [2], aborts: 1, stateCountMin: 100_000 },
  'two faults, given up and preempted': {
    ...{ ...one, faults: 2, aborts: 1, preemptions: 1 },
    stateCountMin: 50_000,
  },
}

/** Where the sizes of the small scopes stand. */
const page = readFileSync(
  new URL('../../../docs/reference/verification.md', import.meta.url),
  'utf8',
)
const isDeep = process.env['KVFERRY_EXPLORE'] === 'deep'
const stateCountMax = isDeep ? 3_000_000 : 100_000

describe('push: whatever comes first, no rule is broken', () => {
  for (const [name, { stateCountMin, ...bounds }] of Object.entries(isDeep ? deepScopes : scopes)) {
    test(name, { timeout: isDeep ? 1_800_000 : 120_000 }, () => {
      const model = createPushModel(shippedRules, bounds)
      exploreWhole(model, {
        ...{ name, stateCountMax, stateCountMin, depthMin: 16 },
        ...(isDeep ? {} : { page }),
      })
    })
  }
})

/** Tests of the test: the smallest scope in which the rule matters. */
const wrongRules: Readonly<Record<keyof Rules, Bounds>> = {
  freesAtAbort: { ...one, aborts: 1 },
  believesSilence: { ...one, faults: 1 },
  forgetsWithdrawals: { ...one, aborts: 1 },
  answersAtOnce: { ...one, aborts: 1 },
  tellsEarly: one,
  freesUnderWrite: one,
  postsBeforeFence: one,
  reportsFirstFailure: { ...one, ranks: [2] },
  believesStrangers: one,
  ignoresLives: { ...one, faults: 1, aborts: 1 },
  preemptsAtOnce: { ...one, preemptions: 1 },
}

/** What breaks with it: blocks under a WRITE, or bytes. */
const expected: Readonly<Record<keyof Rules, RegExp>> = {
  freesAtAbort: /^S1/,
  believesSilence: /^S1/,
  forgetsWithdrawals: /^S1/,
  answersAtOnce: /^S1/,
  tellsEarly: /^S2/,
  freesUnderWrite: /freed while a WRITE reads/,
  postsBeforeFence: /^S2/,
  reportsFirstFailure: /^S1/,
  believesStrangers: /^S2/,
  ignoresLives: /^S1/,
  preemptsAtOnce: /^S2/,
}

test.each(Object.entries(wrongRules))('%s: the explorer notices', (rule, bounds) => {
  const model = createPushModel({ ...shippedRules, [rule]: true }, bounds)
  const { counterExample } = explore(model, { stateCountMax })
  expect(counterExample?.problem).toMatch(expected[rule as keyof Rules])
})
