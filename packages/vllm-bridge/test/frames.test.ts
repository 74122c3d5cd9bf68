/** Messages survive any cut of the stream; lengths and text that can't be right are refused. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeFrame, FrameReader } from '../src/frames.ts'
import { bridgeLimits } from '../src/limits.ts'

test('whatever the chunks, the same messages come out', () => {
  const cuts = fc.array(fc.nat(40), { minLength: 1 })
  fc.assert(
    fc.property(fc.array(fc.jsonValue(), { maxLength: 6 }), cuts, (messages, sizes) => {
      const stream = Buffer.concat(messages.map(encodeFrame))
      const reader = new FrameReader()
      const received: unknown[] = []
      for (let at = 0, turn = 0; at < stream.length; turn++) {
        const size = 1 + sizes[turn % sizes.length]!
        received.push(...reader.push(stream.subarray(at, at + size)))
        at += size
      }
      expect(received).toEqual(JSON.parse(JSON.stringify(messages)))
    }),
  )
})

test('a length over the limit is refused before its bytes arrive', () => {
  const header = Buffer.alloc(4)
  header.writeUInt32LE(bridgeLimits.messageSizeBytesMax + 1, 0)
  expect(() => new FrameReader().push(header)).toThrowError(/a frame of 16777217 bytes/)
})

test('bytes that are no JSON are refused', () => {
  const frame = encodeFrame({ a: 1 })
  frame[4] = 0x21
  expect(() => new FrameReader().push(frame)).toThrowError(/not JSON/)
})

test('a message over the limit is not sent', () => {
  const huge = 'x'.repeat(bridgeLimits.messageSizeBytesMax)
  expect(() => encodeFrame(huge)).toThrowError(expect.objectContaining({ code: 'ERR_KV_LIMIT' }))
})
