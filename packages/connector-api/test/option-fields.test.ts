/** Options of a connector: everything that is wrong is said at once, each with field, value and remedy. */
import { describe, expect, test } from 'vitest'
import { ConnectorError } from '../src/index.ts'
import { readOptions } from '../src/protocol/index.ts'

interface Sample {
  readonly mode: 'fast' | 'safe'
  readonly isLoud: boolean
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly slotCount: number | null
}

const parse = (options: Record<string, unknown>): Sample =>
  readOptions<Sample>(options, new Map([['their_lease', 'leaseMs']]), (fields) => {
    const leaseMs = fields.integer('leaseMs', 100, { min: 10, max: 1_000 })
    const deadlineMs = fields.integer('deadlineMs', leaseMs, { min: 1, max: 1_000 })
    fields.rule({
      field: 'deadlineMs',
      beside: 'leaseMs',
      holds: deadlineMs <= leaseMs,
      remedy: `use at most leaseMs (${leaseMs})`,
    })
    return {
      mode: fields.choice('mode', ['fast', 'safe']),
      isLoud: fields.flag('isLoud'),
      leaseMs,
      deadlineMs,
      slotCount: fields.integerOrNull('slotCount', { min: 0, max: 8 }),
    }
  })

function refusalOf(options: Record<string, unknown>) {
  try {
    parse(options)
  } catch (error) {
    if (ConnectorError.isInstance(error) && error.code === 'ERR_KV_CONFIG') return error
    throw error
  }
  throw new Error('nothing was refused')
}

test('absent fields have their defaults, present ones their values', () => {
  const defaults = { mode: 'fast', isLoud: false, leaseMs: 100, deadlineMs: 100, slotCount: null }
  expect(parse({})).toEqual(defaults)
  const given = { mode: 'safe', isLoud: true, leaseMs: 10, deadlineMs: 1, slotCount: 8 }
  expect(parse(given)).toEqual(given)
  expect(parse({ slotCount: null })).toEqual(defaults)
})

test('all that is wrong is in one error, what is unknown first', () => {
  const { message, details } = refusalOf({
    ...{ mode: 'slow', isLoud: 'yes', leaseMs: 9, slotCount: -1 },
    ...{ their_lease: 5, zzz: [1], lease: 7 },
  })
  expect(message).toBe(
    [
      'options.their_lease: 5 is unknown; did you mean leaseMs?',
      'options.zzz: [1] is unknown; remove it; known options: mode, isLoud, leaseMs, deadlineMs, slotCount.',
      'options.lease: 7 is unknown; did you mean leaseMs?',
      'options.leaseMs: 9 is not valid; use an integer in 10..1000.',
      'options.mode: slow is not valid; use fast or safe.',
      'options.isLoud: yes is not valid; use true or false.',
      'options.slotCount: -1 is not valid; use an integer in 0..8',
    ].join(' '),
  )
  const first = { field: 'options.their_lease', value: '5', remedy: 'did you mean leaseMs?' }
  expect(details).toEqual(first)
})

describe('a rule between two fields', () => {
  test('is judged where both are right by themselves', () => {
    const { details } = refusalOf({ leaseMs: 50, deadlineMs: 51 })
    expect(details).toMatchObject({ field: 'options.deadlineMs', value: '51' })
    expect(details.remedy).toBe('use at most leaseMs (50)')
  })

  test('is not judged against a value that nobody gave', () => {
    expect(refusalOf({ leaseMs: 2_000, deadlineMs: 500 }).message).not.toContain('deadlineMs')
  })
})

test.each<[unknown, string]>([
  [{ toString: 1 }, '{"toString":1}'],
  [null, 'null'],
  ['x'.repeat(1_000), `${'x'.repeat(80)}…`],
])('a value of any kind is shown, and not at any length: %j', (value, shown) => {
  expect(refusalOf({ mode: value }).details.value).toBe(shown)
})

test.each(['mode', 'isLoud', 'leaseMs', 'slotCount'])('%s of a wrong kind is refused', (field) => {
  for (const value of [1.5, [], {}, NaN, 'other', Infinity]) {
    expect(refusalOf({ [field]: value }).details.field).toBe(`options.${field}`)
  }
})
