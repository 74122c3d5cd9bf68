import {
  ConnectorError,
  WIRE_VERSION,
  asEngineId,
  asIncarnation,
  asRequestId,
  limits,
} from '@kvferry/connector-api'
import { ByteReader, ByteWriter, type PeerFacts } from '@kvferry/connector-api/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  decodeHandshakeReply,
  decodeHandshakeRequest,
  decodeHeartbeat,
  decodeHeartbeatAnswer,
  decodeLeaseAnswer,
  decodeLeaseQuestion,
  decodeSpeaker,
  encodeHandshakeReply,
  encodeHandshakeRequest,
  encodeHeartbeat,
  encodeHeartbeatAnswer,
  encodeLeaseAnswer,
  encodeLeaseQuestion,
  encodeSpeaker,
  type HandshakeReply,
  type LeaseAnswer,
} from '../src/messages.ts'
import {
  decodeMetadata,
  encodeMetadata,
  entrySizeBytes,
  type MetadataEntry,
} from '../src/metadata.ts'
import { decodeReadDone, encodeReadDone } from '../src/notification.ts'
import { decodeRankMetadata, encodeRankMetadata } from '../src/rank-metadata.ts'

const u32 = fc.integer({ min: 0, max: 0xffff_ffff })
const duration = fc.double({ min: 0, max: 1e12, noNaN: true })
const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
const bytes = fc.uint8Array({ maxLength: 64 })
const blockIds = fc.array(fc.uint32Array({ maxLength: 20 }), { maxLength: 3 })
const key32 = fc.uint8Array({ minLength: 32, maxLength: 32 })
const token16 = fc.uint8Array({ minLength: 16, maxLength: 16 })
const rank = fc.integer({ min: 0, max: 63 })

const facts: fc.Arbitrary<PeerFacts> = fc.record({
  connector: id,
  transferMode: id,
  model: id,
  dtype: id,
  layout: id,
  layerCount: u32,
  kvHeadCount: u32,
  headSize: u32,
  blockTokens: u32,
  tpSize: u32,
  ppSize: u32,
  regions: fc.array(fc.record({ name: id, blockSizeBytes: u32, blockStrideBytes: duration }), {
    maxLength: 5,
  }),
})
const reply: fc.Arbitrary<HandshakeReply> = fc.record({
  facts,
  grant: fc.option(
    fc.record({
      agentName: id,
      agentMetadata: bytes,
      blockTable: bytes,
      token: token16,
      handoffKey: key32,
      leaseDurationMs: duration,
      clockMs: duration,
      isStaged: fc.boolean(),
    }),
  ),
})
const answer: fc.Arbitrary<LeaseAnswer> = fc.oneof(
  fc.record({ kind: fc.constant('granted' as const), durationMs: duration }),
  fc.constantFrom('completed', 'unknown', 'claimed').map((kind) => ({ kind }) as LeaseAnswer),
)
const requestId = id.map(asRequestId)
const remote = fc.record({
  engineId: id.map(asEngineId),
  incarnation: id.map(asIncarnation),
  host: id,
  port: fc.integer({ min: 0, max: 65_535 }),
  requestId,
})
const handoff = fc.record({
  remote,
  blockIds: fc.uint32Array({ maxLength: 20 }),
  tokenCount: u32,
  promptDigest: key32,
  blockTokens: u32,
  tpSize: fc.integer({ min: 0, max: 65_535 }),
  leaseDeadlineMs: duration,
  signature: key32,
  isReturn: fc.boolean(),
})
const entry: fc.Arbitrary<MetadataEntry> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('announce', 'withdraw', 'undelivered', 'release', 'abort'),
    requestId,
  }) as fc.Arbitrary<MetadataEntry>,
  fc.record({ kind: fc.constant('lease' as const), requestId, remainingMs: duration }),
  fc.record({ kind: fc.constant('offer' as const), requestId, loadId: u32, handoff }),
  fc.record({
    kind: fc.constant('stage' as const),
    requestId,
    blockIds: fc.uint32Array({ maxLength: 20 }),
  }),
  fc.record({
    kind: fc.constant('load' as const),
    requestId,
    tokenEnd: u32,
    localBlockIds: blockIds,
  }),
)

const peer = 'p0'
/** Each message: how to make one, how to encode and decode it. */
const codecs: Record<
  string,
  {
    value: fc.Arbitrary<unknown>
    encode: (value: never) => Uint8Array
    decode: (bytes: Uint8Array) => unknown
  }
> = {
  'handshake request': {
    value: fc.record({ rank, facts }),
    encode: encodeHandshakeRequest,
    decode: (body) => decodeHandshakeRequest(body, peer),
  },
  'handshake reply': {
    value: reply,
    encode: encodeHandshakeReply,
    decode: (body) => decodeHandshakeReply(body, peer),
  },
  'lease question': {
    value: fc.record({ rank, requestId, loadId: u32 }),
    encode: encodeLeaseQuestion,
    decode: (body) => decodeLeaseQuestion(body, 'pull.renew', peer),
  },
  'lease answer': {
    value: answer,
    encode: encodeLeaseAnswer,
    decode: (body) => decodeLeaseAnswer(body, peer),
  },
  heartbeat: {
    value: fc.array(requestId, { maxLength: 10 }),
    encode: encodeHeartbeat,
    decode: (body) => decodeHeartbeat(body, peer),
  },
  'heartbeat answer': {
    value: fc.record({
      clockMs: duration,
      durationMs: duration,
      isHeld: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
    }),
    encode: encodeHeartbeatAnswer,
    decode: (body) => decodeHeartbeatAnswer(body, 3, peer),
  },
  speaker: {
    value: rank,
    encode: encodeSpeaker,
    decode: (body) => decodeSpeaker(body, 'pull.wired', peer),
  },
  'read-done notification': {
    value: fc.record({ token: token16, loadId: u32, requestId }),
    encode: encodeReadDone,
    decode: decodeReadDone,
  },
  'step metadata': {
    value: fc.array(entry, { maxLength: 6 }),
    encode: encodeMetadata,
    decode: decodeMetadata,
  },
  'handshake metadata': {
    value: fc.record({
      host: id,
      port: fc.integer({ min: 0, max: 65_535 }),
      handoffKey: key32,
    }),
    encode: encodeRankMetadata,
    decode: decodeRankMetadata,
  },
}

/** Decodes, or is refused with one of the codes that mean "not understood"; nothing else may happen. */
function decodeOrRefuse(decode: (bytes: Uint8Array) => unknown, input: Uint8Array): string {
  try {
    decode(input)
    return 'decoded'
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    expect(['ERR_KV_MESSAGE_INVALID', 'ERR_KV_PEER_INCOMPATIBLE']).toContain(error.code)
    return error.code
  }
}

for (const [name, { value, encode, decode }] of Object.entries(codecs)) {
  test(`${name}: what is encoded is decoded (12)`, () => {
    fc.assert(
      fc.property(value, (original) => {
        expect(decode(encode(original as never))).toEqual(original)
      }),
    )
  })

  test(`${name}: hostile bytes are decoded or refused, never worse (19)`, () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (input) => {
        decodeOrRefuse(decode, input)
      }),
    )
  })

  test(`${name}: every prefix and every appendix of a message is refused`, () => {
    const whole = encode(fc.sample(value, { numRuns: 1, seed: 7 })[0] as never)
    for (let size = 0; size < whole.length; size++) {
      // The request id of a notification ends where the message does.
      if (name === 'read-done notification' && size >= 22) break
      expect(decodeOrRefuse(decode, whole.subarray(0, size))).toBe('ERR_KV_MESSAGE_INVALID')
    }
    if (name === 'read-done notification') return
    expect(decodeOrRefuse(decode, Uint8Array.of(...whole, 0))).toBe('ERR_KV_MESSAGE_INVALID')
  })

  test(`${name}: a changed byte never does worse than be refused`, () => {
    const indexed = fc.record({
      original: value,
      at: fc.nat(),
      byte: fc.integer({ max: 255, min: 0 }),
    })
    fc.assert(
      fc.property(indexed, ({ original, at, byte }) => {
        const input = encode(original as never)
        input[at % input.length] = byte
        decodeOrRefuse(decode, input)
      }),
    )
  })
}

test('another wire version is refused with both numbers', () => {
  const request = { rank: 0, facts: fc.sample(facts, { numRuns: 1, seed: 7 })[0]! }
  const body = encodeHandshakeRequest(request)
  body[0] = WIRE_VERSION + 1
  expect(() => decodeHandshakeRequest(body, peer)).toThrow(
    expect.objectContaining({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      details: {
        peer,
        field: 'wireVersion',
        local: String(WIRE_VERSION),
        remote: String(WIRE_VERSION + 1),
      },
    }),
  )
})

test('a length beyond its bound is refused before anything is allocated for it', () => {
  const list = new ByteWriter(64).u32(0xffff_ffff).finish()
  expect(() => new ByteReader(list, 'x').u32List(10)).toThrow('exceeds 10')
  const long = new ByteWriter(70_000).string('x'.repeat(60_000)).finish()
  expect(() => new ByteReader(long, 'x').string(256)).toThrow('exceeds 256')
})

test('the writer refuses what would not survive, and what exceeds its bound', () => {
  expect(() => new ByteWriter(8).u8(256)).toThrow(RangeError)
  expect(() => new ByteWriter(8).u16(-1)).toThrow(RangeError)
  expect(() => new ByteWriter(8).u32(1.5)).toThrow(RangeError)
  expect(() => new ByteWriter(8).f64(Number.NaN)).toThrow(RangeError)
  expect(() => new ByteWriter(8).fixed(new Uint8Array(9))).toThrow(RangeError)
})

test('an id with a byte order mark comes back whole', () => {
  const body = encodeLeaseQuestion({ rank: 0, requestId: asRequestId('\ufeffr0'), loadId: 0 })
  expect(decodeLeaseQuestion(body, 'pull.renew', peer).requestId).toBe('\ufeffr0')
})

test('a notification of the longest id stays within the limit', () => {
  const requestId = asRequestId('r'.repeat(limits.idSizeBytesMax))
  const message = encodeReadDone({ token: new Uint8Array(16), loadId: 1, requestId })
  expect(message.length).toBeLessThanOrEqual(limits.notificationSizeBytesMax)
})

test('the size of an entry is never underestimated', () => {
  const empty = encodeMetadata([]).length
  fc.assert(
    fc.property(entry, (value) => {
      expect(encodeMetadata([value]).length - empty).toBeLessThanOrEqual(entrySizeBytes(value))
    }),
  )
})
