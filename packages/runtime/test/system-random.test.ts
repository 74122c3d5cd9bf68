/** The system's random source as a port. */
import { expect, it } from 'vitest'
import { createSystemRandom } from '../src/index.ts'

const random = createSystemRandom()

it('is uniform in [0, 1)', () => {
  const values = Array.from({ length: 10_000 }, () => random.uniform())
  expect(values.every((value) => value >= 0 && value < 1)).toBe(true)
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  expect(Math.abs(mean - 0.5)).toBeLessThan(0.03)
  expect(new Set(values).size).toBe(values.length)
})

it('gives as many bytes as asked for, each time others, over the limit of Web Crypto too', () => {
  for (const count of [0, 1, 16, 70_000]) expect(random.bytes(count)).toHaveLength(count)
  expect(random.bytes(16)).not.toEqual(random.bytes(16))
  expect(new Set(random.bytes(70_000).subarray(66_000)).size).toBe(256)
})

it.each([-1, 1.5, NaN])('refuses %d bytes', (count) => {
  expect(() => random.bytes(count)).toThrow(RangeError)
})
