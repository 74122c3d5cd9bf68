import {
  asEngineId,
  asIncarnation,
  asRequestId,
  digestTokens,
  limits,
  type KvTransferParams,
} from '@kvferry/connector-api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeHandoff, parseParams } from '../src/handoff.ts'
import type { Handoff } from '../src/metadata.ts'

const handoff: Handoff = {
  remote: {
    engineId: asEngineId('p0'),
    incarnation: asIncarnation('p0-1'),
    host: '127.0.0.1',
    port: 5_600,
    requestId: asRequestId('p-r0'),
  },
  blockIds: Uint32Array.of(5, 9, 2),
  tokenCount: 9,
  promptDigest: digestTokens([1, 2, 3, 4, 5, 6, 7, 8, 9]),
  blockTokens: 4,
  tpSize: 1,
  leaseDeadlineMs: 30_000.5,
  signature: Uint8Array.from({ length: 32 }, (_, index) => index),
  isReturn: false,
}
const context = {
  promptTokenCount: 9,
  promptDigest: handoff.promptDigest,
  ...{ blockTokens: 4, tpSize: 1, engineId: asEngineId('d0') },
}
const good = JSON.parse(JSON.stringify(encodeHandoff(handoff))) as KvTransferParams

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

const refusalOf = (params: KvTransferParams): unknown => {
  const parsed = parseParams(params, context)
  return parsed.kind === 'malformed' ? parsed.error : parsed.kind
}

test('a handoff that went through JSON is what the producer wrote', () => {
  expect(parseParams(good, context)).toEqual({ kind: 'consume', handoff })
})

test('the keys are the documented ones', () => {
  expect(good).toEqual({
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: 'p0',
    remote_incarnation: 'p0-1',
    remote_request_id: 'p-r0',
    remote_block_ids: [[5, 9, 2]],
    remote_host: '127.0.0.1',
    remote_port: 5_600,
    remote_num_tokens: 9,
    remote_prompt_digest: 'e3d25e7590edd76206831801f67d1ee231d8b90a2bb4bfe31a152be21d2f536c',
    remote_block_size: 4,
    remote_lease_deadline_ms: 30_000.5,
    remote_signature: '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f',
    tp_size: 1,
    transfer_mode: 'pull',
    wire_version: 4,
  })
})

test('which side a request is on', () => {
  const kind = (params: KvTransferParams | null) => parseParams(params, context).kind
  expect(kind(null)).toBe('none')
  expect(kind({})).toBe('none')
  expect(kind({ do_remote_decode: false, do_remote_prefill: null })).toBe('none')
  expect(kind({ do_remote_decode: true, do_remote_prefill: false })).toBe('produce')
  expect(kind({ do_remote_decode: true, remote_engine_id: null })).toBe('produce')
  expect(kind({ ...good, from_a_router: 1 })).toBe('consume')
})

describe('each field is refused by name', () => {
  const long = 'x'.repeat(limits.idSizeBytesMax + 1)
  const wrong: Record<string, readonly unknown[]> = {
    do_remote_prefill: ['true', 1],
    do_remote_decode: [true, 'no'],
    remote_engine_id: [undefined, null, '', 7, long, 'd0'],
    remote_incarnation: [undefined, '', {}, long],
    remote_request_id: [undefined, '', [], long, 'ü'.repeat(limits.idSizeBytesMax / 2 + 1)],
    remote_host: [undefined, '', 1, 'x'.repeat(256)],
    remote_port: [undefined, 0, -1, 65_536, 1.5, '5600'],
    // Other counts than the prompt's would leave tokens without KV, or KV without tokens.
    remote_num_tokens: [undefined, 0, 8, 10, '9', 9.5, Number.NaN],
    remote_prompt_digest: [
      undefined,
      7,
      '',
      'ab',
      hexOf(handoff.promptDigest).toUpperCase(),
      hexOf(digestTokens([1, 2, 3, 4, 5, 6, 7, 8, 8])),
      hexOf(digestTokens([1, 2, 3, 4, 5, 6, 7, 8])),
    ],
    remote_block_size: [undefined, 0, 65_537, '4', 4.5],
    remote_lease_deadline_ms: [undefined, 0, -1, Number.POSITIVE_INFINITY, '30000'],
    remote_signature: [undefined, '', 7, '00', 'zz'.repeat(32), '00'.repeat(33)],
    tp_size: [undefined, 0, '1', 5_000],
    transfer_mode: [undefined, 'push', 1],
    wire_version: [undefined, 0, 1, 3, 5, '4'],
    remote_block_ids: [
      undefined,
      null,
      [],
      [[]],
      [5, 9, 2],
      'blocks',
      [[5, 9]],
      [[5, 9, 2, 3]],
      [[5, 9, -1]],
      [[5, 9, 2 ** 32]],
      [[5, 9, 1.5]],
      [[5, 9, '2']],
      [[5, 9, 9]],
      [{ length: 3 }],
    ],
  }
  for (const [field, values] of Object.entries(wrong)) {
    test.each(values.map((value) => [value]))(`${field} = %j`, (value) => {
      expect(refusalOf({ ...good, [field]: value })).toMatchObject({
        code: 'ERR_KV_HANDOFF_INVALID',
        details: { field },
      })
    })
  }
})

test('what pull cannot do is unsupported, not invalid', () => {
  const three = parseParams({ ...good, tp_size: 3 }, { ...context, tpSize: 2 })
  expect(three).toMatchObject({ kind: 'malformed', error: { code: 'ERR_KV_UNSUPPORTED' } })
  expect(refusalOf({ ...good, remote_block_size: 3 })).toMatchObject({ code: 'ERR_KV_UNSUPPORTED' })
  expect(refusalOf({ ...good, remote_block_ids: [[1, 2, 3], [4]] })).toMatchObject({
    code: 'ERR_KV_UNSUPPORTED',
  })
})

test.each([
  [1, 4],
  [2, 1],
  [4, 2],
])('a producer of %i ranks for %i: taken, with a signature for each of its ranks', (p, d) => {
  const params = { ...good, tp_size: p, remote_signature: '00'.repeat(32 * p) }
  const parsed = parseParams(params, { ...context, tpSize: d })
  expect(parsed).toMatchObject({ kind: 'consume', handoff: { tpSize: p } })
})

describe('a handoff for the next turn', () => {
  const said = { ...handoff, isReturn: true }
  const params = JSON.parse(JSON.stringify(encodeHandoff(said))) as KvTransferParams
  const next = { ...context, promptTokenCount: 20, isBidirectional: true }
  const parse = (digestOf?: (tokenCount: number) => Uint8Array | null) =>
    parseParams(params, digestOf === undefined ? next : { ...next, digestOf })

  test('is compared with as many tokens of the prompt as it covers', () => {
    const asked: number[] = []
    const digestOf = (tokenCount: number): Uint8Array => {
      asked.push(tokenCount)
      return handoff.promptDigest
    }
    expect(parse(digestOf)).toEqual({ kind: 'produce', returned: said, error: null })
    expect(asked).toEqual([9])
  })

  test.each([
    ['other tokens', () => digestTokens([9]), 'ERR_KV_HANDOFF_INVALID', 'remote_prompt_digest'],
    ['fewer tokens', () => null, 'ERR_KV_HANDOFF_INVALID', 'remote_num_tokens'],
    ['no digests', undefined, 'ERR_KV_UNSUPPORTED', undefined],
  ])('in a request that has %s: refused', (_, digestOf, code, field) => {
    const details = field === undefined ? { capability: 'isBidirectional' } : { field }
    const error = expect.objectContaining({ code, details: expect.objectContaining(details) })
    expect(parse(digestOf)).toEqual({ kind: 'produce', returned: null, error })
  })
})

test('an error shows a hostile value without carrying it', () => {
  const huge = 'y'.repeat(1_000_000)
  const error = refusalOf({ ...good, remote_host: huge }) as Error
  expect(error.message.length).toBeLessThan(200)
})

test('whatever a client sends, parsing answers', () => {
  const value = fc.anything({ maxDepth: 3 })
  const params = fc.record(Object.fromEntries(Object.keys(good).map((key) => [key, value])))
  fc.assert(
    fc.property(params, (hostile) => {
      parseParams(hostile, context)
      parseParams({ ...hostile, do_remote_prefill: true, do_remote_decode: false }, context)
    }),
  )
  const oneHostile = fc.tuple(fc.constantFrom(...Object.keys(good)), value)
  fc.assert(
    fc.property(oneHostile, ([key, hostile]) => {
      parseParams({ ...good, [key]: hostile }, context)
    }),
  )
})
