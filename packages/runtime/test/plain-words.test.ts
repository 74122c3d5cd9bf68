/** Our words for what zod finds: whatever is wrong, its own are never shown. */
import { expect, it } from 'vitest'
import fc from 'fast-check'
import { z } from 'zod'
import { plainWords } from '../src/index.ts'

const schema = z.strictObject({
  text: z.string().min(2).max(4),
  count: z.int().min(1).max(9),
  on: z.boolean(),
  word: z.enum(['a', 'b']),
  list: z.array(z.number()).min(1),
  either: z.union([z.string(), z.number()]),
  own: z.string({ error: 'own words' }),
  url: z.url(),
})
const good = {
  ...{ text: 'abc', count: 1, on: true, word: 'a', list: [1], either: 1, own: 'x' },
  url: 'http://x',
}

const messageFor = (change: object): string => {
  const parsed = schema.safeParse({ ...good, ...change }, { error: plainWords })
  return parsed.error?.issues[0]?.message ?? 'accepted'
}

it.each([
  [{ text: 1 }, 'must be a string'],
  [{ text: undefined }, 'is missing; it must be a string'],
  [{ text: 'a' }, 'must have at least 2 characters'],
  [{ count: 1.5 }, 'must be a whole number'],
  [{ count: 10 }, 'must be at most 9'],
  [{ on: 'yes' }, 'must be true or false'],
  [{ word: 'c' }, 'must be a or b'],
  [{ list: [] }, 'must have at least 1 entries'],
  [{ list: {} }, 'must be a list'],
  [{ either: true }, 'has none of the forms that are accepted'],
  [{ own: 5 }, 'own words'],
  [{ url: 'x' }, 'has the wrong form'],
  [{ more: 1 }, 'has keys that are unknown: more'],
])('%j: %s', (change, message) => {
  expect(messageFor(change)).toBe(message)
})

it('never shows zod’s own words', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...Object.keys(good)), fc.anything()), (change) => {
      expect(messageFor(change)).not.toMatch(/invalid|expected|received|zod/i)
    }),
    { numRuns: 500 },
  )
})
