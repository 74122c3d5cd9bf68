import { expect, test } from 'vitest'
import { limits } from '../src/index.ts'
import { readLeaseOptions, readOptions, type LeaseOptions } from '../src/protocol/index.ts'

const parse = (options: Record<string, unknown>): LeaseOptions =>
  readOptions<LeaseOptions>(options, new Map(), readLeaseOptions)

test('absent, they are the limits of every lease and transfer', () => {
  const { leaseDurationMs, transferDeadlineMs } = limits
  expect(parse({})).toEqual({ leaseDurationMs, transferDeadlineMs })
})

test('no transfer is waited for longer than its blocks are kept, by default either', () => {
  const short = { leaseDurationMs: 5_000, transferDeadlineMs: 5_000 }
  expect(parse({ leaseDurationMs: 5_000 })).toEqual(short)
  expect(parse(short)).toEqual(short)
  const long = { leaseDurationMs: 3_600_000, transferDeadlineMs: limits.transferDeadlineMs }
  expect(parse({ leaseDurationMs: 3_600_000 })).toEqual(long)
})

test.each([
  ['leaseDurationMs', 999, 'use an integer in 1000..3600000'],
  ['leaseDurationMs', '30000', 'use an integer in 1000..3600000'],
  ['leaseDurationMs', 3_600_001, 'use an integer in 1000..3600000'],
  ['transferDeadlineMs', 0, 'use an integer in 1..3600000'],
  ['transferDeadlineMs', 30_001, 'use at most leaseDurationMs (30000)'],
])('%s = %j is refused with a remedy', (field, value, remedy) => {
  const details = { field: `options.${field}`, value: String(value), remedy }
  const refused = expect.objectContaining({ code: 'ERR_KV_CONFIG', details })
  expect(() => parse({ [field]: value })).toThrow(refused)
})
