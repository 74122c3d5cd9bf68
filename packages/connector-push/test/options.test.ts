import { describe, expect, test } from 'vitest'
import { limits } from '@kvferry/connector-api'
import factory, { parsePushOptions, push } from '../src/index.ts'

test('defaults', () => {
  expect(parsePushOptions({})).toEqual({
    progressive: false,
    leaseDurationMs: limits.leaseDurationMs,
    transferDeadlineMs: limits.transferDeadlineMs,
    handshakeTimeoutMs: limits.handshakeTimeoutMs,
    registrationTimeoutMs: 480_000,
    recomputeThreshold: 0,
  })
})

test('completed options are valid options', () => {
  const completed = push.parseOptions({ progressive: true, leaseDurationMs: 5_000 })
  expect(push.parseOptions(completed)).toEqual(completed)
})

describe('each value out of range is refused by name, with a remedy', () => {
  test.each([
    ['progressive', 'yes'],
    ['leaseDurationMs', 999],
    ['transferDeadlineMs', limits.leaseDurationMs + 1],
    ['handshakeTimeoutMs', 1.5],
    ['registrationTimeoutMs', 0],
    ['recomputeThreshold', -1],
  ])('%s = %j', (field, value) => {
    expect(() => parsePushOptions({ [field]: value })).toThrow(
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
  ['push_registration_timeout', 'registrationTimeoutMs'],
  ['progresive', 'progressive'],
])('the unknown key %s is answered with %s', (key, meant) => {
  expect(() => parsePushOptions({ [key]: 1 })).toThrow(`did you mean ${meant}?`)
})

test('the default export is the factory, and capabilities are data', () => {
  expect(factory).toBe(push)
  expect(JSON.parse(JSON.stringify(factory.capabilities))).toEqual(factory.capabilities)
})
