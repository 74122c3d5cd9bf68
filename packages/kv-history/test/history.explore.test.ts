/** Writer, staging, leases and restores of one history in every order of their steps, as far as the scopes reach. */
import { readFileSync } from 'node:fs'
import { explore, exploreWhole } from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { createHistoryModel } from './model/explored-acts.ts'
import { shippedRules, type Rules, type Scope } from './model/explored-world.ts'

const tiers = { device: 1, host: 1, chunk: 1 } as const
const calm = { ...tiers, faults: 0, times: 0 } as const

/** Small enough for every test run, and seen whole. */
const scopes: Readonly<Record<string, Scope & { readonly stateCountMin: number }>> = {
  'three blocks into two slots, one comes back': {
    ...{ ...calm, offers: ['a', 'b', 'c'], readers: ['a'] },
    stateCountMin: 150,
  },
  'and its time may be over': {
    ...{ ...calm, offers: ['a', 'b', 'c'], readers: ['a'], times: 1 },
    stateCountMin: 450,
  },
  'and a copy may fail, or not end in time': {
    ...{ ...calm, offers: ['a', 'b', 'c'], readers: ['a'], faults: 1 },
    stateCountMin: 400,
  },
  'prompts of two blocks in chunks of one': {
    ...{ ...calm, device: 2, offers: ['ab', 'ac'], readers: ['ab'] },
    stateCountMin: 100,
  },
}

/** KVFERRY_EXPLORE=deep: minutes instead of seconds. */
const deepScopes: typeof scopes = {
  'prompts of two blocks in chunks of two, two come back, a fault, and time': {
    ...{ ...calm, device: 2, chunk: 2, offers: ['ab', 'cd', 'ac'], readers: ['ab', 'cd'] },
    ...{ faults: 1, times: 1, stateCountMin: 5_000 },
  },
}

/** Where the sizes of the small scopes stand. */
const page = readFileSync(
  new URL('../../../docs/reference/verification.md', import.meta.url),
  'utf8',
)
const isDeep = process.env['KVFERRY_EXPLORE'] === 'deep'
const stateCountMax = 300_000

describe('history: whatever comes first, no rule is broken', () => {
  for (const [name, { stateCountMin, ...scope }] of Object.entries(isDeep ? deepScopes : scopes)) {
    test(name, { timeout: 300_000 }, () => {
      const model = createHistoryModel(scope, shippedRules)
      exploreWhole(model, { name, stateCountMax, stateCountMin, ...(isDeep ? {} : { page }) })
    })
  }
})

/** Tests of the test: a scope in which the rule matters, and what breaks without it. */
const oneReader = { ...calm, offers: ['a', 'b', 'c'], readers: ['a'] } as const
const wrongRules: Readonly<Record<keyof Rules, readonly [Scope, RegExp]>> = {
  publishesEarly: [oneReader, /^S2/],
  freesUnderCopy: [oneReader, /^S1/],
  readsUnpinned: [oneReader, /^S[12]/],
  expiresUnderRead: [{ ...oneReader, times: 1 }, /^S[12]/],
  abandonsAtOnce: [{ ...oneReader, faults: 1 }, /^S1/],
}

test.each(Object.entries(wrongRules))('%s: the explorer notices', (rule, [scope, problem]) => {
  const model = createHistoryModel(scope, { ...shippedRules, [rule]: true })
  const { counterExample } = explore(model, { stateCountMax })
  expect(counterExample?.problem).toMatch(problem)
})
