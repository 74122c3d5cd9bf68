import { readFileSync } from 'node:fs'
import { explore, exploreWhole } from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { shippedRules, type Rules } from './model/state.ts'
import { createTicketModel, type Bounds } from './model/ticket-model.ts'

const one = { consumers: 1, faults: 0, aborts: 0 } as const

/** Small enough for every test run, and seen whole. */
const scopes: Readonly<Record<string, Bounds & { readonly stateCountMin: number }>> = {
  'one consumer, given up at any point': { ...one, aborts: 1, stateCountMin: 250 },
  'one consumer, a fault at any point': { ...one, faults: 1, stateCountMin: 400 },
  'one consumer, two faults, given up at any point': {
    ...{ ...one, faults: 2, aborts: 1 },
    stateCountMin: 1_200,
  },
  'two consumers of one ticket': { ...one, consumers: 2, stateCountMin: 1_400 },
  'two consumers, given up at any point': { ...one, consumers: 2, aborts: 1, stateCountMin: 4_000 },
}

/** KVFERRY_EXPLORE=deep: minutes instead of seconds. */
const deepScopes: typeof scopes = {
  'two consumers, a fault, given up at any point': {
    ...{ consumers: 2, faults: 1, aborts: 1 },
    stateCountMin: 60_000,
  },
}

/** Where the sizes of the small scopes stand. */
const page = readFileSync(
  new URL('../../../docs/reference/verification.md', import.meta.url),
  'utf8',
)
const isDeep = process.env['KVFERRY_EXPLORE'] === 'deep'
const stateCountMax = 300_000

describe('xavier: whatever comes first, no rule is broken', () => {
  for (const [name, { stateCountMin, ...bounds }] of Object.entries(isDeep ? deepScopes : scopes)) {
    test(name, { timeout: 300_000 }, () => {
      const model = createTicketModel(shippedRules, bounds)
      exploreWhole(model, { name, stateCountMax, stateCountMin, ...(isDeep ? {} : { page }) })
    })
  }
})

/** Tests of the test: the smallest scope in which the rule matters, and what breaks without it. */
const wrongRules: Readonly<Record<keyof Rules, readonly [Bounds, RegExp]>> = {
  servesAnyone: [{ ...one, consumers: 2 }, /^S[12]/],
  forgetsWithdrawals: [{ ...one, aborts: 1 }, /^S1/],
  answersAtOnce: [{ ...one, aborts: 1 }, /^S1/],
  expiresUnderRead: [one, /^S1/],
  takesBackClaims: [{ ...one, aborts: 1 }, /^S1/],
  freesUnderCopy: [one, /^S1/],
  freesAtAbort: [{ ...one, aborts: 1 }, /^S1/],
}

test.each(Object.entries(wrongRules))('%s: the explorer notices', (rule, [bounds, problem]) => {
  const model = createTicketModel({ ...shippedRules, [rule]: true }, bounds)
  const { counterExample } = explore(model, { stateCountMax })
  expect(counterExample?.problem).toMatch(problem)
})
