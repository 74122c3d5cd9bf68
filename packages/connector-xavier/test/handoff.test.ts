import { ConnectorError, asEngineId } from '@kvferry/connector-api'
import { sweepHostileParams } from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { encodeHandoff, parseParams, ticketOf, type Handoff } from '../src/handoff.ts'

const own = asEngineId('d0')
const context = { engineId: own, promptTokenCount: 33 }
const handoff: Handoff = {
  producer: { engineId: asEngineId('p0'), host: '127.0.0.1', port: 5_600, tpSize: 1 },
  ticket: ticketOf(Uint8Array.from({ length: 16 }, (_, index) => 15 * index)),
  tokenCount: 33,
}
const params = encodeHandoff(handoff)

test('what a producer writes a consumer reads, and nothing names the producer’s blocks', () => {
  const overHttp = JSON.parse(JSON.stringify(params)) as typeof params
  expect(parseParams(overHttp, context)).toEqual({ kind: 'consume', handoff })
  expect(Object.keys(params).filter((key) => key.includes('block'))).toEqual([])
})

test('a ticket has all of its 128 bits', () => {
  expect(handoff.ticket).toBe('000f1e2d3c4b5a69788796a5b4c3d2e1')
  expect(ticketOf(new Uint8Array(16))).toHaveLength(32)
})

test('a router’s own keys are left alone; requests without flags are nobody’s', () => {
  expect(parseParams({ ...params, router_note: 'x' }, context).kind).toBe('consume')
  expect(parseParams(null, context).kind).toBe('none')
  expect(parseParams({}, context).kind).toBe('none')
  expect(parseParams({ do_remote_decode: true, do_remote_prefill: false }, context).kind).toBe(
    'produce',
  )
})

describe('a malformed one is refused by its field (RT-48)', () => {
  test.each([
    ['do_remote_decode', true],
    ['do_remote_prefill', 'yes'],
    ['transfer_mode', 'pull'],
    ['wire_version', 99],
    ['remote_engine_id', own],
    ['remote_engine_id', ''],
    ['remote_host', 7],
    ['remote_port', 70_000],
    ['remote_ticket', ''],
    ['remote_ticket', 'A'.repeat(32)],
    ['remote_ticket', '0'.repeat(31)],
    // Another prompt's length: what is missing would be another prompt's KV.
    ['remote_num_tokens', 32],
    ['remote_num_tokens', 34],
    ['remote_num_tokens', 0],
  ])('%s = %j', (field, value) => {
    const parsed = parseParams({ ...params, [field]: value }, context)
    if (parsed.kind !== 'malformed') throw new Error(`it is ${parsed.kind}`)
    const { error } = parsed
    expect(ConnectorError.isInstance(error) && error.code).toBe('ERR_KV_HANDOFF_INVALID')
    expect(error.details).toMatchObject({ field })
  })

  test('more than one rank is unsupported, and said so', () => {
    const parsed = parseParams({ ...params, tp_size: 2 }, context)
    expect(parsed.kind === 'malformed' && parsed.error.code).toBe('ERR_KV_UNSUPPORTED')
  })
})

const hostileCount = 20_000

test(`${hostileCount} hostile params give no exception, and no ticket, place or length out of bounds`, () => {
  sweepHostileParams({
    ...{ genuine: params, seed: 20_266, count: hostileCount },
    parse: (hostile) => parseParams(hostile, context),
    isSound: ({ handoff: { producer, ticket, tokenCount } }) => {
      const { engineId, port, tpSize } = producer
      const isPlace = engineId !== own && port >= 1 && port <= 65_535 && tpSize === 1
      return isPlace && /^[0-9a-f]{32}$/.test(ticket) && tokenCount === 33
    },
  })
})
