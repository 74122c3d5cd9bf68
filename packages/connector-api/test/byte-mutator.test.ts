/** The source of hostile bytes: repeatable, bounded, and really different from what it was made of. */
import { expect, test } from 'vitest'
import { createByteMutator } from '../src/testing/index.ts'

const corpus = [
  Uint8Array.from({ length: 40 }, (_, index) => index),
  Uint8Array.from({ length: 300 }, (_, index) => (index * 7) % 256),
]
const take = (count: number, seed: number, sizeBytesMax = 4_096): Uint8Array[] => {
  const next = createByteMutator({ corpus, seed, sizeBytesMax })
  return Array.from({ length: count }, () => next())
}
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('gives the same bytes for the same seed, and others for another', () => {
  expect(take(200, 1).map(hex)).toEqual(take(200, 1).map(hex))
  expect(take(200, 1).map(hex)).not.toEqual(take(200, 2).map(hex))
})

test('changes nearly every message, in many ways, and never the corpus', () => {
  const before = corpus.map(hex)
  const made = take(2_000, 3)
  expect(made.filter((bytes) => before.includes(hex(bytes))).length).toBeLessThan(100)
  expect(new Set(made.map(hex)).size).toBeGreaterThan(1_500)
  expect(made.some(({ length }) => length === 0)).toBe(true)
  expect(made.some(({ length }) => length > 300)).toBe(true)
  expect(corpus.map(hex)).toEqual(before)
})

test('is bounded', () => {
  expect(Math.max(...take(2_000, 4, 100).map(({ length }) => length))).toBe(100)
})

test('refuses an empty corpus', () => {
  expect(() => createByteMutator({ corpus: [], seed: 1 })).toThrow(RangeError)
})
