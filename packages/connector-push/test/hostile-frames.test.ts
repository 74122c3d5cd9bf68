/**
 * Hostile messages against every decoder of push that reads what another process wrote, made from valid ones
 * of each kind: each is understood, or refused with a code that says "not understood" (51). And params, which
 * anybody on the network of the router may have written.
 */
import { ConnectorError, asEngineId } from '@kvferry/connector-api'
import { createByteMutator, sweepHostileParams } from '@kvferry/connector-api/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseParams } from '../src/params.ts'
import { codecs } from './fixtures/codecs.ts'

const messageCount = 10_000
const paramsCount = 20_000
const notUnderstood = ['ERR_KV_MESSAGE_INVALID', 'ERR_KV_PEER_INCOMPATIBLE']

/** A stack trace for each refusal would be most of the work. */
const { stackTraceLimit } = Error
beforeAll(() => {
  Error.stackTraceLimit = 0
})
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit
})

describe.each(Object.entries(codecs))('%s', (_, { corpus, decode }) => {
  test('the corpus is understood', () => {
    for (const message of corpus) expect(() => decode(message)).not.toThrow()
  })

  test('every prefix and every appendix of a message is refused', () => {
    const refused = expect.objectContaining({ code: 'ERR_KV_MESSAGE_INVALID' })
    for (const message of corpus) {
      for (let size = 0; size < message.length; size++) {
        expect(() => decode(message.subarray(0, size)), `${size} bytes`).toThrow(refused)
      }
      expect(() => decode(Uint8Array.of(...message, 0))).toThrow(refused)
    }
  })

  test(`${messageCount} hostile ones are understood or refused`, () => {
    const next = createByteMutator({ corpus, seed: 20_264 })
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

test(`${paramsCount} hostile params give no exception, and nothing out of bounds`, () => {
  const genuine = {
    ...{ do_remote_prefill: true, do_remote_decode: false, transfer_id: 'xfer-1' },
    ...{ remote_engine_id: 'p0', remote_host: '127.0.0.1', remote_port: 5_600 },
    ...{ remote_request_id: 'cmpl-1', tp_size: 2, pp_size: 1 },
  }
  const own = { engineId: asEngineId('d0'), tpSize: 2 }
  sweepHostileParams({
    ...{ genuine, seed: 20_265, count: paramsCount },
    parse: (params) => parseParams(params, own),
    isSound: ({ producer: { engineId, port, tpSize } }) =>
      engineId !== own.engineId && port >= 1 && port <= 65_535 && tpSize >= 1 && tpSize <= 64,
  })
})
