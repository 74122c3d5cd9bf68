import fc from 'fast-check'
import { expect, test } from 'vitest'
import { planSlabs } from '@kvferry/connector-api'
import { loadBinding } from '../src/load-binding.ts'

const lengths = fc.array(
  fc.oneof(fc.constant(64), fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 5_000 })),
  { minLength: 1, maxLength: 60 },
)

test('the agent cuts slabs where the contract says, whatever the pieces', () => {
  const native = loadBinding()
  fc.assert(
    fc.property(lengths, fc.integer({ min: 32, max: 4_096 }), (list, slabSizeBytes) => {
      const pieces = Float64Array.from(list)
      const expected = planSlabs({ lengths: pieces }, slabSizeBytes)
      const found = native.planSlabs(pieces, slabSizeBytes)
      expect(found).toEqual(expected.flatMap(({ end, listBytes }) => [end, listBytes]))
    }),
    { numRuns: 500 },
  )
})

test('a slab that holds no piece is no plan', () => {
  expect(loadBinding().planSlabs(Float64Array.of(8), 24)).toBe(null)
})
