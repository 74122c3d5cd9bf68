/** A prompt that may come back from the history, in every order of what may happen to it. */
import { readFileSync } from 'node:fs'
import { explore, exploreWhole } from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import {
  createReturningModel,
  shippedReturningRules,
  type ReturningBounds,
  type ReturningRules,
} from './model/returning-model.ts'

const calm = { times: 0, faults: 0, closes: 0, questions: 1 } as const

const scopes: Readonly<Record<string, ReturningBounds & { readonly stateCountMin: number }>> = {
  'asked once, a fault at any point': { ...calm, faults: 1, stateCountMin: 40 },
  'asked twice, the history closes at any point': {
    ...{ ...calm, questions: 2, closes: 1 },
    stateCountMin: 130,
  },
  'asked twice, its reservation ends at any point': {
    ...{ ...calm, questions: 2, times: 2 },
    stateCountMin: 450,
  },
  'asked three times, all of it at any point': {
    ...{ times: 3, faults: 2, closes: 1, questions: 3 },
    stateCountMin: 2_000,
  },
}
/** KVFERRY_EXPLORE=deep. */
const deepScopes: typeof scopes = {
  'asked six times, all of it at any point': {
    ...{ times: 6, faults: 3, closes: 1, questions: 6 },
    stateCountMin: 11_000,
  },
}

/** Where the sizes of the small scopes stand. */
const page = readFileSync(
  new URL('../../../docs/reference/verification.md', import.meta.url),
  'utf8',
)
const isDeep = process.env['KVFERRY_EXPLORE'] === 'deep'
const stateCountMax = 300_000

describe('a returning prompt: whatever comes first, no rule is broken', () => {
  for (const [name, { stateCountMin, ...bounds }] of Object.entries(isDeep ? deepScopes : scopes)) {
    test(name, { timeout: 300_000 }, () => {
      const model = createReturningModel(shippedReturningRules, bounds)
      exploreWhole(model, { name, stateCountMax, stateCountMin, ...(isDeep ? {} : { page }) })
    })
  }
})

const wrongRules: Readonly<Record<keyof ReturningRules, readonly [ReturningBounds, RegExp]>> = {
  forgetsToForget: [calm, /^V2: a lease/],
  reportsAtOnce: [calm, /^S1/],
  ignoresGone: [{ ...calm, closes: 1 }, /^V1/],
}

test.each(Object.entries(wrongRules))('%s: the explorer notices', (rule, [bounds, problem]) => {
  const model = createReturningModel({ ...shippedReturningRules, [rule]: true }, bounds)
  const { counterExample } = explore(model, { stateCountMax })
  expect(counterExample?.problem).toMatch(problem)
})
