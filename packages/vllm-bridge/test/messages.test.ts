/** The shim's messages are checked at the boundary: good ones pass, others name what is wrong. */
import { ConnectorError } from '@kvferry/connector-api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseShimMessage } from '../src/messages.ts'

const start = {
  t: 'start',
  protocol: 4,
  config: { connector: 'pull' },
  logLevel: 'warn',
  life: { fd: 8, sizeBytes: 4_096 },
  caches: {
    ...{ model: 'tiny', dtype: 'float32', layout: 'LBHNC' },
    ...{ kvHeadCount: 2, headSize: 64, blockTokens: 32, blockCount: 512 },
    memories: [{ fd: 7, sizeBytes: 65_536 }],
    regions: [
      { name: 'l0', memory: 0, offsetBytes: 0, blockSizeBytes: 128, blockStrideBytes: 128 },
    ],
  },
}
const digest = '00'.repeat(31) + 'ff'
const step = {
  t: 'step',
  index: 3,
  scheduled: [{ id: 'a', computed: 3, blocks: [[1]] }],
  preempted: [],
  settle: false,
  save: false,
  events: [
    { ...{ k: 'new', id: 'a', prompt: 9 }, digest, params: '{"do_remote_decode":true}' },
    { k: 'match', id: 'a', computed: 0, answer: 9 },
    { k: 'alloc', id: 'a', computed: 0, blocks: [[1, 2]], external: 9, fill: [1, 2] },
    {
      ...{ k: 'finish', id: 'a', computed: 9, end: 'stopped', blocks: [[1, 2]] },
      ...{ delayFree: false, params: null },
    },
    { k: 'output', sent: [], received: ['a'] },
    { k: 'match', id: 'b', computed: 0, answer: null, at: 12.5 },
    { k: 'output', sent: [], received: [], matched: [{ id: 'b', question: 1, blocks: 2 }], at: 13 },
  ],
}

describe('good messages', () => {
  test.each([start, { t: 'saved', index: 4 }, { t: 'ping' }])('$t', (message) => {
    expect(parseShimMessage(message)).toEqual(message)
  })

  test('step: params and digest of a request are read out of their text', () => {
    const [first, ...others] = step.events
    const promptDigest = new Uint8Array(32).fill(255, 31)
    const read = { ...first, digest: promptDigest, params: { do_remote_decode: true } }
    expect(parseShimMessage(step)).toEqual({ ...step, events: [read, ...others] })
  })

  test('step: keys of a prompt that may be kept are read out of their text', () => {
    const keys = Uint8Array.from({ length: 64 }, (_, index) => 255 - index)
    const text = Buffer.from(keys).toString('base64')
    const message = { ...step, events: [{ ...step.events[0], keys: text }] }
    expect(parseShimMessage(message)).toMatchObject({ events: [{ keys }] })
  })
})

test.each([
  ['another protocol', { ...start, protocol: 2 }, 'protocol'],
  ['a negative index', { ...step, index: -1 }, 'index'],
  ['an unknown key', { ...step, more: 1 }, 'more'],
  ['an event of no kind', { ...step, events: [{ k: 'other' }] }, 'events.0.k'],
  [
    'a block id out of range',
    { ...step, events: [{ ...step.events[2], blocks: [[2 ** 32]] }] },
    'events.0.blocks.0.0',
  ],
  [
    'a digest that is too short',
    { ...step, events: [{ ...step.events[0], digest: 'ff' }] },
    'events.0.digest',
  ],
  [
    'params that are no JSON',
    { ...step, events: [{ ...step.events[0], params: '{' }] },
    'events.0.params',
  ],
  [
    'params that are no object',
    { ...step, events: [{ ...step.events[0], params: '[1]' }] },
    'events.0.params',
  ],
  [
    'half a key',
    { ...step, events: [{ ...step.events[0], keys: 'AAAA' }] },
    'events.0.keys: has half a key',
  ],
  ['keys in no base64', { ...step, events: [{ ...step.events[0], keys: '§' }] }, 'events.0.keys'],
  ['no object', null, ''],
])('%s is refused by name', (_, message, field) => {
  expect(() => parseShimMessage(message)).toThrowError(
    expect.objectContaining({
      code: 'ERR_KV_MESSAGE_INVALID',
      message: expect.stringContaining(field),
    }),
  )
})

test('anything else is refused with a typed error, never another one', () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      try {
        parseShimMessage(value)
      } catch (error) {
        expect(ConnectorError.isInstance(error)).toBe(true)
      }
    }),
  )
})
