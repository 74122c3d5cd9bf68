import { describe, expect, test } from 'vitest'
import { limits } from '@kvferry/connector-api'
import factory, { parsePullOptions, pull } from '../src/index.ts'

test('defaults', () => {
  expect(parsePullOptions({})).toEqual({
    posting: 'background',
    leaseDurationMs: limits.leaseDurationMs,
    transferDeadlineMs: limits.transferDeadlineMs,
    handshakeTimeoutMs: limits.handshakeTimeoutMs,
    recomputeThreshold: 0,
    bidirectional: false,
    decoderBlocksTtlMs: 480_000,
  })
})

test('completed options are valid options', () => {
  const completed = pull.parseOptions({ posting: 'inline', leaseDurationMs: 5_000 })
  expect(pull.parseOptions(completed)).toEqual(completed)
})

describe('each value out of range is refused by name, with a remedy', () => {
  test.each([
    ['posting', 'later'],
    ['posting', null],
    ['leaseDurationMs', 999],
    ['transferDeadlineMs', limits.leaseDurationMs + 1],
    ['handshakeTimeoutMs', 1.5],
    ['recomputeThreshold', -1],
    ['bidirectional', 'yes'],
    ['decoderBlocksTtlMs', 999],
  ])('%s = %j', (field, value) => {
    expect(() => parsePullOptions({ [field]: value })).toThrow(
      expect.objectContaining({
        code: 'ERR_KV_CONFIG',
        details: expect.objectContaining({ field: `options.${field}` }),
      }),
    )
  })
})

test.each([
  ['kv_lease_duration', 'leaseDurationMs'],
  ['kv_recompute_threshold', 'recomputeThreshold'],
  ['bidirectional_kv_xfer', 'bidirectional'],
  ['decoder_kv_blocks_ttl', 'decoderBlocksTtlMs'],
  ['leaseDurationMS', 'leaseDurationMs'],
  ['leaseDuration', 'leaseDurationMs'],
  ['postng', 'posting'],
  ['Posting', 'posting'],
  ['psoting', 'posting'],
  ['handshakeDeadline', 'handshakeTimeoutMs'],
])('the unknown key %s is answered with %s', (key, meant) => {
  expect(() => parsePullOptions({ [key]: 1 })).toThrow(`did you mean ${meant}?`)
})

test.each(['zzz', 'constructor', '__proto__x'])(
  'the unknown key %s is answered with all',
  (key) => {
    expect(() => parsePullOptions({ [key]: 1 })).toThrow('known options: posting, ')
  },
)

test('the default export is the factory, and capabilities are data', () => {
  expect(factory).toBe(pull)
  expect(factory.name).toBe('pull')
  expect(JSON.parse(JSON.stringify(factory.capabilities))).toEqual(factory.capabilities)
})
