/** What a misspelt name is taken for. */
import { expect, it } from 'vitest'
import { nearestKey } from '../src/index.ts'

const known = ['posting', 'leaseDurationMs', 'path', 'options']

it.each([
  ['postng', 'posting'],
  ['pots', null],
  ['pathh', 'path'],
  ['ptah', 'path'],
  ['lease_duration_ms', 'leaseDurationMs'],
  ['LEASEDURATION', 'leaseDurationMs'],
  ['option', 'options'],
  ['', null],
  ['zzz', null],
])('%s → %s', (key, nearest) => {
  expect(nearestKey(key, known)).toBe(nearest)
})

it('takes the closest, not the first', () => {
  expect(nearestKey('backend', ['backenda1', 'backends'])).toBe('backends')
})

it('costs nothing for a hostile length', () => {
  expect(nearestKey('p'.repeat(10_000_000), known)).toBeNull()
})
