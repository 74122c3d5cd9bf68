import { asEngineId, limits, type KvferryConfig } from '@kvferry/connector-api'
import { describe, expect, test } from 'vitest'
import factory, { parseXavierOptions, xavier } from '../src/index.ts'

test('defaults', () => {
  expect(parseXavierOptions({})).toEqual({
    staging: 'direct',
    unclaimedTicketMs: 120_000,
    claimedTicketMs: 600_000,
    transferDeadlineMs: limits.transferDeadlineMs,
    handshakeTimeoutMs: limits.handshakeTimeoutMs,
    loadTimeoutMs: 600_000,
    recomputeThreshold: 0,
    gpuCacheBytes: 268_435_456,
    hostBlockCount: null,
    historyPolicy: 'observed-reuse',
  })
})

test('completed options are valid options; a claim never shortens a ticket’s life', () => {
  const completed = xavier.parseOptions({ unclaimedTicketMs: 900_000 })
  expect(completed['claimedTicketMs']).toBe(900_000)
  expect(xavier.parseOptions(completed)).toEqual(completed)
})

test('without an engine it is known which config could not keep a history', () => {
  const config = (change: object): KvferryConfig => ({
    ...{ connector: 'xavier', role: 'both', engineId: asEngineId('p0'), bufferDevice: 'device' },
    ...{ loadFailurePolicy: 'fail', path: 'auto', peers: null, options: {} },
    sideChannel: { host: '127.0.0.1', port: 0, insecure: false, tls: null },
    nixl: { backends: ['UCX'], libraryPath: null },
    ...change,
  })
  expect(() => xavier.checkConfig!(config({}))).toThrow('loadFailurePolicy: fail would fail')
  const fine = [
    { loadFailurePolicy: 'recompute' },
    { role: 'consumer' },
    { options: { gpuCacheBytes: 0 } },
  ]
  for (const change of fine) expect(xavier.checkConfig!(config(change))).toBeUndefined()
})

describe('each value out of range is refused by name, with a remedy', () => {
  test.each([
    ['staging', 'host'],
    ['unclaimedTicketMs', 999],
    ['unclaimedTicketMs', '120000'],
    ['unclaimedTicketMs', 3_600_001],
    ['claimedTicketMs', 119_999],
    ['transferDeadlineMs', 0],
    ['handshakeTimeoutMs', 1.5],
    ['loadTimeoutMs', true],
    ['recomputeThreshold', -1],
    ['hostBlockCount', -1],
    ['historyPolicy', 'lru'],
    // RT-49
    ['gpuCacheBytes', -1],
    ['gpuCacheBytes', 1.5],
    ['gpuCacheBytes', true],
    ['gpuCacheBytes', '1024'],
  ])('%s = %j', (field, value) => {
    expect(() => parseXavierOptions({ [field]: value })).toThrow(
      expect.objectContaining({
        code: 'ERR_KV_CONFIG',
        details: expect.objectContaining({ field: `options.${field}` }),
      }),
    )
  })
})

test.each([
  ['kv_lease_duration', 'unclaimedTicketMs'],
  ['kv_recompute_threshold', 'recomputeThreshold'],
  ['xavier_gpu_cache_bytes', 'gpuCacheBytes'],
  ['claimedTicketMS', 'claimedTicketMs'],
  ['loadTimeout', 'loadTimeoutMs'],
])('the unknown key %s is answered with %s', (key, meant) => {
  expect(() => parseXavierOptions({ [key]: 1 })).toThrow(`did you mean ${meant}?`)
})

test('the default export is the factory, and capabilities are data', () => {
  expect(factory).toBe(xavier)
  expect(JSON.parse(JSON.stringify(factory.capabilities))).toEqual(factory.capabilities)
})
