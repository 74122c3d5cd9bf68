/**
 * Half a million hostile messages against every decoder of pull that reads what another process wrote:
 * side-channel bodies, notifications, step and handshake metadata, and handoffs as JSON. Made from valid
 * messages of each kind. Each is understood, or refused with a code that says "not understood".
 */
import { asEngineId, asIncarnation, asRequestId, ConnectorError } from '@kvferry/connector-api'
import { createByteMutator, sweepHostileParams } from '@kvferry/connector-api/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { encodeHandoff, parseParams } from '../src/handoff.ts'
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
} from '../src/messages.ts'
import { decodeMetadata, encodeMetadata } from '../src/metadata.ts'
import { decodeReadDone, encodeReadDone } from '../src/notification.ts'
import { decodeRankMetadata, encodeRankMetadata } from '../src/rank-metadata.ts'

const messageCount = 45_000
const paramsCount = 60_000
const peer = 'p0'

const bytes = (count: number): Uint8Array =>
  Uint8Array.from({ length: count }, (_, index) => (index * 37) % 256)
const requestId = asRequestId('cmpl-0badcafe-12345678')
const facts = {
  ...{ connector: 'pull', transferMode: 'pull', model: 'tiny', dtype: 'bfloat16', layout: 'NHD' },
  ...{ layerCount: 4, kvHeadCount: 2, headSize: 32, blockTokens: 16, tpSize: 1, ppSize: 1 },
  regions: [
    { name: 'layer.0', blockSizeBytes: 4_096, blockStrideBytes: 4_096 },
    { name: 'layer.1', blockSizeBytes: 4_096, blockStrideBytes: 4_096 },
  ],
}
const grant = {
  agentName: 'p0:5f1c',
  agentMetadata: bytes(318),
  blockTable: bytes(120),
  token: bytes(16),
  handoffKey: bytes(32),
  leaseDurationMs: 30_000,
  clockMs: 1_234.5,
  isStaged: false,
}
const handoff = {
  remote: {
    engineId: asEngineId(peer),
    incarnation: asIncarnation('5f1c'),
    host: '127.0.0.1',
    port: 5_600,
    requestId,
  },
  blockIds: Uint32Array.of(3, 1, 2),
  tokenCount: 40,
  promptDigest: bytes(32),
  blockTokens: 16,
  tpSize: 1,
  leaseDeadlineMs: 31_234.5,
  signature: bytes(32),
  isReturn: false,
}

interface Decoder {
  readonly corpus: readonly Uint8Array[]
  readonly decode: (message: Uint8Array) => unknown
}

const decoders: Readonly<Record<string, Decoder>> = {
  'handshake request': {
    corpus: [
      encodeHandshakeRequest({ rank: 0, facts }),
      encodeHandshakeRequest({ rank: 3, facts: { ...facts, regions: [] } }),
    ],
    decode: (body) => decodeHandshakeRequest(body, peer),
  },
  'handshake reply': {
    corpus: [encodeHandshakeReply({ facts, grant }), encodeHandshakeReply({ facts, grant: null })],
    decode: (body) => decodeHandshakeReply(body, peer),
  },
  'lease question': {
    corpus: [encodeLeaseQuestion({ rank: 1, requestId, loadId: 7 })],
    decode: (body) => decodeLeaseQuestion(body, 'pull.renew', peer),
  },
  'lease answer': {
    corpus: [
      encodeLeaseAnswer({ kind: 'granted', durationMs: 30_000 }),
      encodeLeaseAnswer({ kind: 'claimed' }),
    ],
    decode: (body) => decodeLeaseAnswer(body, peer),
  },
  heartbeat: {
    corpus: [encodeHeartbeat([requestId, asRequestId('b')]), encodeHeartbeat([])],
    decode: (body) => decodeHeartbeat(body, peer),
  },
  'heartbeat answer': {
    corpus: [encodeHeartbeatAnswer({ clockMs: 1, durationMs: 30_000, isHeld: [true, false] })],
    decode: (body) => decodeHeartbeatAnswer(body, 2, peer),
  },
  speaker: {
    corpus: [encodeSpeaker(1)],
    decode: (body) => decodeSpeaker(body, 'pull.wired', peer),
  },
  'read-done notification': {
    corpus: [encodeReadDone({ token: bytes(16), loadId: 7, requestId })],
    decode: decodeReadDone,
  },
  'step metadata': {
    corpus: [
      encodeMetadata([
        { kind: 'announce', requestId },
        { kind: 'lease', requestId, remainingMs: 29_000 },
        { kind: 'offer', requestId, loadId: 7, handoff },
        { kind: 'load', requestId, localBlockIds: [Uint32Array.of(5, 6, 7)], tokenEnd: 40 },
        { kind: 'release', requestId },
        { kind: 'abort', requestId },
      ]),
      encodeMetadata([]),
    ],
    decode: decodeMetadata,
  },
  'handshake metadata': {
    corpus: [encodeRankMetadata({ host: '127.0.0.1', port: 5_600, handoffKey: bytes(32) })],
    decode: decodeRankMetadata,
  },
}

const notUnderstood = ['ERR_KV_MESSAGE_INVALID', 'ERR_KV_PEER_INCOMPATIBLE']

/** A stack trace for each refusal would be most of the work. */
const { stackTraceLimit } = Error
beforeAll(() => {
  Error.stackTraceLimit = 0
})
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit
})

describe.each(Object.entries(decoders))('%s', (_, { corpus, decode }) => {
  test('the corpus is understood', () => {
    for (const message of corpus) expect(() => decode(message)).not.toThrow()
  })

  test(`${messageCount} hostile ones are understood or refused`, () => {
    const next = createByteMutator({ corpus, seed: 20_262 })
    let refused = 0
    for (let count = 0; count < messageCount; count++) {
      try {
        decode(next())
      } catch (error) {
        if (!ConnectorError.isInstance(error) || !notUnderstood.includes(error.code)) throw error
        refused++
      }
    }
    expect(refused).toBeGreaterThan(messageCount / 4)
  })
})

describe('handoff', () => {
  const context = {
    promptTokenCount: 40,
    promptDigest: handoff.promptDigest,
    blockTokens: 16,
    tpSize: 1,
    engineId: asEngineId('d0'),
  }

  test('the corpus is understood', () => {
    expect(parseParams(encodeHandoff(handoff), context).kind).toBe('consume')
  })

  test(`${paramsCount} hostile ones give no exception, and nothing out of bounds`, () => {
    sweepHostileParams({
      ...{ genuine: encodeHandoff(handoff), seed: 20_263, count: paramsCount },
      // Changed ids are still handoffs in form; their signature is checked by the worker half.
      kindCountMin: 100,
      parse: (params) => parseParams(params, context),
      isSound: ({ handoff: { remote, blockIds, tokenCount } }) =>
        remote.engineId !== context.engineId &&
        remote.port >= 1 &&
        remote.port <= 65_535 &&
        blockIds.length === 3 &&
        tokenCount === 40,
    })
  })
})
