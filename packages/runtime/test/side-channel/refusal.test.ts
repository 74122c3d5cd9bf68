/** Errors that travel: every code with its details, and what is made of anything else. */
import { describe, expect, it } from 'vitest'
import fc from 'fast-check'
import { encode } from '@msgpack/msgpack'
import {
  ConnectorError,
  connectorErrorCodes,
  type AnyConnectorError,
  type ConnectorErrorCode,
} from '@kvferry/connector-api'
import { decodeRefusal, encodeRefusal } from '../../src/side-channel/refusal.ts'
import { sideChannelLimits } from '../../src/side-channel/limits.ts'

const samples: Record<ConnectorErrorCode, Record<string, unknown>> = {
  ERR_KV_CLOSED: { what: 'x' },
  ERR_KV_BUSY: { what: 'x', transfers: 2 },
  ERR_KV_PEER_UNAVAILABLE: { peer: 'p0' },
  ERR_KV_PEER_INCOMPATIBLE: { peer: 'p0', field: 'model', local: 'a', remote: 'b' },
  ERR_KV_WRONG_EPOCH: { engineId: 'p0', expected: '1', actual: '2' },
  ERR_KV_UNAUTHORISED: { reason: 'x' },
  ERR_KV_HANDOFF_INVALID: { field: 'x', value: 'y' },
  ERR_KV_LEASE_EXPIRED: { requestId: 'r' },
  ERR_KV_TRANSFER_FAILED: { operation: 'READ', peer: 'p0', status: 'x' },
  ERR_KV_DEADLINE: { what: 'x', deadlineMs: 5 },
  ERR_KV_UNSUPPORTED: { capability: 'x' },
  ERR_KV_LIMIT: { limit: 'x', value: 2, max: 1 },
  ERR_KV_QUARANTINE_FULL: { blocks: 3, max: 2 },
  ERR_KV_MESSAGE_INVALID: { where: 'x', reason: 'y' },
  ERR_KV_CONFIG: { field: 'x', value: 'y', remedy: 'z' },
  ERR_KV_CONNECTOR_NOT_INSTALLED: { connector: 'x', command: 'y' },
  ERR_NIXL_UNAVAILABLE: { searched: ['/a', '/b'], remedy: 'x' },
  ERR_NIXL: { operation: 'x', status: 'y' },
  ERR_CUDA_UNAVAILABLE: { reason: 'x', remedy: 'y' },
  ERR_CUDA: { operation: 'x', status: 'y' },
}

const errorOf = (code: ConnectorErrorCode, message: string): AnyConnectorError =>
  new ConnectorError(code, message, samples[code] as never) as AnyConnectorError

describe('a refusal', () => {
  it.each(connectorErrorCodes)('carries %s', (code) => {
    const error = decodeRefusal(encodeRefusal(errorOf(code, 'why')))
    expect(error).toMatchObject({ code, message: 'why', details: samples[code] })
    expect(error.isRetryable).toBe(errorOf(code, '').isRetryable)
  })

  it.each(connectorErrorCodes)(
    'of %s is not believed when a detail is missing or of another type',
    (code) => {
      for (const key of Object.keys(samples[code])) {
        for (const wrong of [undefined, null, { a: 1 }]) {
          const details = { ...samples[code], [key]: wrong }
          const error = decodeRefusal(
            encode({ code, message: 'why', details }, { ignoreUndefined: true }),
          )
          expect(error.code).toBe('ERR_KV_MESSAGE_INVALID')
        }
      }
    },
  )

  it('cuts a long message and replaces details that are too large', () => {
    const long = decodeRefusal(encodeRefusal(errorOf('ERR_KV_CLOSED', 'm'.repeat(100_000))))
    expect(long.message).toHaveLength(sideChannelLimits.refusalMessageLengthMax)
    const details = { peer: 'p'.repeat(100_000) }
    const large = encodeRefusal(new ConnectorError('ERR_KV_PEER_UNAVAILABLE', 'gone', details))
    expect(large.length).toBeLessThanOrEqual(sideChannelLimits.refusalSizeBytesMax)
    expect(decodeRefusal(large).message).toContain('ERR_KV_PEER_UNAVAILABLE: gone')
  })

  it.each([
    ['an unknown code', { code: 'ERR_MADE_UP', message: '', details: {} }],
    ['a code of the prototype', { code: 'constructor', message: '', details: {} }],
    ['no details', { code: 'ERR_KV_CLOSED', message: '' }],
    ['no message', { code: 'ERR_KV_CLOSED', details: { what: '' } }],
    ['a list', []],
    ['nothing', null],
  ])('with %s becomes ERR_KV_MESSAGE_INVALID', (_, value) => {
    expect(decodeRefusal(encode(value)).code).toBe('ERR_KV_MESSAGE_INVALID')
  })

  it('drops details that don’t belong to its code', () => {
    const body = encode({ code: 'ERR_KV_CLOSED', message: '', details: { what: 'x', more: 1 } })
    expect(decodeRefusal(body).details).toEqual({ what: 'x' })
  })

  it('of any bytes is an error and never an exception, nor an allocation of what they announce', () => {
    for (const head of [
      [0xdd, 0x01, 0xff, 0xff, 0xff],
      [0xdf, 0x01, 0xff, 0xff, 0xff],
    ]) {
      const before = process.memoryUsage().heapUsed
      expect(decodeRefusal(Uint8Array.from(head)).code).toBe('ERR_KV_MESSAGE_INVALID')
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(20e6)
    }
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(ConnectorError.isInstance(decodeRefusal(bytes))).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })
})
