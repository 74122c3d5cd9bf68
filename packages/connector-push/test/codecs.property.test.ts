import { ConnectorError, WIRE_VERSION } from '@kvferry/connector-api'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  decodeHeartbeat,
  encodeFailed,
  encodeHeartbeatReply,
  decodeDone,
  decodeRegisterReply,
  decodeRelease,
  encodeRegisterReply,
  encodeHeartbeat,
  encodeWithdraw,
  decodeHeartbeatReply,
  decodeRegistration,
  decodeWithdraw,
  decodeWriteDone,
  decodeFailed,
  encodeDone,
  encodeRelease,
  encodeRegistration,
  encodeWriteDone,
} from '@kvferry/connector-api/remote-writes'
import {
  decodeMetadata,
  encodeMetadata,
  entrySizeBytes,
  type MetadataEntry,
} from '../src/metadata.ts'
import { codecs, errors, peer, requestId } from './fixtures/codecs.ts'

const u32 = fc.integer({ min: 0, max: 0xffff_ffff })
const rank = fc.integer({ min: 0, max: 7 })
const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
const digest = fc.uint8Array({ minLength: 32, maxLength: 32 })
const number = fc.double({ min: 0, max: 1e12, noNaN: true })
const blockIds = fc.uint32Array({ maxLength: 20 })
const prompt = fc.record({ tokenCount: u32, digest })

const withdrawal = fc.record({ rank, loadId: u32, transferId: id })
const entry = fc.oneof(
  fc.record({
    kind: fc.constantFrom(
      'begin',
      'undelivered',
      'preempt',
      'finish',
      'abort-source',
      'withdraw',
      'undelivered',
      'release',
      'abort',
    ),
    requestId: id,
  }),
  fc.record({ kind: fc.constant('announce'), requestId: id, transferId: id, prompt }),
  fc.record({
    ...{ kind: fc.constant('computed'), requestId: id, tokenEnd: u32, isLast: fc.boolean() },
    ...{ firstBlock: u32, blockIds },
  }),
  fc.record({
    ...{ kind: fc.constant('offer'), requestId: id, transferId: id, prompt },
    producer: fc.record({
      ...{ engineId: id, host: id },
      port: fc.integer({ min: 0, max: 65_535 }),
      tpSize: fc.integer({ min: 0, max: 65_535 }),
    }),
  }),
  fc.record({
    ...{ kind: fc.constant('load'), requestId: id, tokenEnd: u32 },
    localBlockIds: fc.array(blockIds, { maxLength: 3 }),
  }),
) as unknown as fc.Arbitrary<MetadataEntry>

/** Each message: how to make one, how to encode and decode it. */
const roundTrips: Record<
  string,
  [fc.Arbitrary<unknown>, (value: never) => Uint8Array, (body: Uint8Array) => unknown]
> = {
  registration: [
    fc.record({
      ...{ rank, loadId: u32, transferId: id, firstToken: u32, tokenCount: u32 },
      ...{ promptDigest: digest, blockIds },
    }),
    encodeRegistration,
    (body) => decodeRegistration(body, peer),
  ],
  withdrawal: [withdrawal, encodeWithdraw, (body) => decodeWithdraw(body, peer)],
  release: [
    fc.record({ rank, transferId: id }),
    encodeRelease,
    (body) => decodeRelease(body, peer),
  ],
  heartbeat: [
    fc.record({ rank, transferIds: fc.array(id, { maxLength: 10 }) }),
    encodeHeartbeat,
    decodeHeartbeat,
  ],
  'heartbeat reply': [
    fc.record({
      isAtWork: fc.boolean(),
      standings: fc.array(fc.constantFrom('unknown', 'registered', 'held'), {
        ...{ minLength: 3, maxLength: 3 },
      }),
    }),
    encodeHeartbeatReply,
    (body) => decodeHeartbeatReply(body, 3),
  ],
  'done news': [
    fc.record({
      ...{ loadId: u32, postedAtMs: number, lastBytes: number },
      times: fc.record({
        ...{ queuedUs: number, prepareUs: number, postUs: number, wireUs: number, bytes: number },
        ...{ descriptorsBeforeMerge: u32, descriptorsAfterMerge: u32 },
      }),
    }),
    encodeDone,
    (body) => decodeDone(body, peer),
  ],
  notification: [
    fc.record({ token: fc.uint8Array({ minLength: 16, maxLength: 16 }), loadId: u32 }),
    encodeWriteDone,
    decodeWriteDone,
  ],
  'step metadata': [fc.array(entry, { maxLength: 6 }), encodeMetadata, decodeMetadata],
}

for (const [name, [value, encode, decode]] of Object.entries(roundTrips)) {
  test(`${name}: what is encoded is decoded (47)`, () => {
    fc.assert(
      fc.property(value, (original) => {
        expect(decode(encode(original as never))).toEqual(original)
      }),
    )
  })
}

test.each(errors.map((error) => [error.code, error] as const))(
  'a producer’s %s arrives with its code, in an answer and as news',
  (code, error) => {
    expect(decodeRegisterReply(encodeRegisterReply(error), peer, requestId)?.code).toBe(code)
    const news = decodeFailed(encodeFailed({ loadId: 1, error }), peer).error
    // A lease belongs to a request of the consumer's, which news do not name.
    expect(news.code).toBe(code === 'ERR_KV_LEASE_EXPIRED' ? 'ERR_KV_TRANSFER_FAILED' : code)
  },
)

test('the size of an entry is never underestimated', () => {
  const empty = encodeMetadata([]).length
  fc.assert(
    fc.property(entry, (value) => {
      expect(encodeMetadata([value]).length - empty).toBeLessThanOrEqual(entrySizeBytes(value))
    }),
  )
})

test('another wire version is refused with both numbers', () => {
  const body = codecs['registration']!.corpus[0]!.slice()
  body[0] = WIRE_VERSION + 1
  const details = { peer, field: 'wireVersion', local: `${WIRE_VERSION}` }
  try {
    decodeRegistration(body, peer)
    expect.unreachable()
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    expect(error.code).toBe('ERR_KV_PEER_INCOMPATIBLE')
    expect(error.details).toEqual({ ...details, remote: `${WIRE_VERSION + 1}` })
  }
})
