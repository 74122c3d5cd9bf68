/** The frame codec: every frame survives any way of cutting the stream, and no bytes do more than be refused. */
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import fc from 'fast-check'
import { encode } from '@msgpack/msgpack'
import { ConnectorError, limits } from '@kvferry/connector-api'
import { FrameReader } from '../../src/side-channel/frame-reader.ts'
import { decodeFrame, encodeFrame, frameTypes, type Frame } from '../../src/side-channel/frame.ts'

const kind = fc.string({
  unit: fc.constantFrom(...'abcXYZ019./:_-~!'),
  minLength: 1,
  maxLength: 64,
})
/** Sizes around the places where msgpack changes its header; the content is a pattern, which is cheap to make. */
const body = fc
  .tuple(fc.oneof(fc.nat(40), fc.constantFrom(255, 256, 65_535, 65_536)), fc.nat(250))
  .map(([size, seed]) => Buffer.alloc(size, `${seed}.`))
const frame: fc.Arbitrary<Frame> = fc
  .record({
    type: fc.constantFrom(...frameTypes),
    id: fc.nat(2 ** 32 - 1),
    kind,
    body,
  })
  .map((made) => (made.type === 'request' || made.type === 'send' ? made : { ...made, kind: '' }))

/** Cuts bytes at the given fractions of their length. */
function cut(bytes: Uint8Array, fractions: readonly number[]): Uint8Array[] {
  const places = fractions
    .map((fraction) => Math.floor(fraction * bytes.length))
    .sort((a, b) => a - b)
  return [...places, bytes.length].map((end, index) => bytes.subarray(places[index - 1] ?? 0, end))
}

const summary = ({ body, ...rest }: Frame) => ({
  ...rest,
  body: createHash('sha256').update(body).digest('hex'),
})

function read(chunks: readonly Uint8Array[]): Frame[] {
  const reader = new FrameReader()
  return chunks.flatMap((chunk) => [...reader.push(chunk)])
}

/** Frames until the refusal, which must be of the one allowed form. */
function readHostile(chunks: readonly Uint8Array[]): { frames: Frame[]; isRefused: boolean } {
  const frames: Frame[] = []
  const reader = new FrameReader()
  try {
    for (const chunk of chunks) for (const next of reader.push(chunk)) frames.push(next)
    return { frames, isRefused: false }
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    expect(error.code).toBe('ERR_KV_MESSAGE_INVALID')
    return { frames, isRefused: true }
  }
}

const lengthPrefixed = (content: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(4 + content.length)
  new DataView(bytes.buffer).setUint32(0, content.length)
  bytes.set(content, 4)
  return bytes
}

describe('frames', () => {
  it('come back as they were sent, however the stream is cut', () => {
    fc.assert(
      fc.property(
        fc.array(frame, { minLength: 1, maxLength: 5 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 }),
        (frames, fractions) => {
          const stream = Buffer.concat(frames.map((f) => encodeFrame(f.type, f)))
          const got = read(cut(stream, fractions))
          expect(got.map(summary)).toEqual(frames.map(summary))
        },
      ),
      { numRuns: 200 },
    )
  })

  it('come back when they arrive byte by byte', () => {
    const bytes = encodeFrame('request', { id: 70_000, kind: 'k', body: new Uint8Array(300) })
    expect(read([...bytes].map((byte) => Uint8Array.of(byte)))).toHaveLength(1)
  })

  it('may be as large as the limit and not a byte larger', () => {
    const overhead =
      encodeFrame('send', { kind: 'k', body: new Uint8Array(70_000) }).length - 70_000 - 4
    const largest = new Uint8Array(limits.frameSizeBytesMax - overhead)
    expect(read([encodeFrame('send', { kind: 'k', body: largest })])[0]?.body.length).toBe(
      largest.length,
    )
    const larger = new Uint8Array(largest.length + 1)
    expect(() => encodeFrame('send', { kind: 'k', body: larger })).toThrow(ConnectorError)
  })

  it('are what a msgpack library writes', () => {
    fc.assert(
      fc.property(frame, (made) => {
        const content = encode([made.type, made.id, made.kind, made.body])
        expect(Buffer.compare(encodeFrame(made.type, made), lengthPrefixed(content))).toBe(0)
      }),
    )
  })

  it('are what any msgpack library writes: the golden bytes', () => {
    const bytes = encodeFrame('request', { id: 300, kind: 'ab', body: Uint8Array.of(1, 2) })
    expect(Buffer.from(bytes).toString('hex')).toBe(
      '00000013' + '94' + 'a772657175657374' + 'cd012c' + 'a26162' + 'c4020102',
    )
  })
})

describe('hostile bytes', () => {
  const hostile = { numRuns: 3_000 }

  it('after a mutation are a frame or refused', () => {
    fc.assert(
      fc.property(frame, fc.nat(), fc.integer({ min: 1, max: 255 }), (made, place, flip) => {
        const bytes = encodeFrame(made.type, { ...made, body: made.body.subarray(0, 40) })
        const at = place % bytes.length
        bytes[at] = (bytes[at] ?? 0) ^ flip
        readHostile([bytes])
      }),
      hostile,
    )
  })

  it('of a truncated content are refused', () => {
    fc.assert(
      fc.property(frame, fc.double({ min: 0, max: 0.999, noNaN: true }), (made, fraction) => {
        const content = encodeFrame(made.type, made).subarray(4)
        const short = content.subarray(0, Math.floor(content.length * fraction))
        expect(() => decodeFrame(short)).toThrow(ConnectorError)
      }),
      hostile,
    )
  })

  it('of any other content are refused', () => {
    const content = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.anything({ withBigInt: false }).map((value) => {
        try {
          return encode(value)
        } catch {
          return Uint8Array.of(0xc1)
        }
      }),
      fc
        .tuple(
          fc.constantFrom('hello', 'nonsense', 'request'),
          fc.anything(),
          fc.string(),
          fc.string(),
        )
        .map(([type, , text, body]) => encode([type, -1, text, body])),
    )
    fc.assert(
      fc.property(content, (bytes) => {
        expect(readHostile([lengthPrefixed(bytes)]).frames).toEqual([])
      }),
      hostile,
    )
  })

  it.each([
    ['a negative id', ['request', -1, 'k', new Uint8Array(0)]],
    ['a fractional id', ['request', 0.5, 'k', new Uint8Array(0)]],
    ['an id beyond 32 bits', ['request', 2 ** 32, 'k', new Uint8Array(0)]],
    ['a request without a kind', ['request', 1, '', new Uint8Array(0)]],
    ['a hello with a kind', ['hello', 0, 'k', new Uint8Array(0)]],
    ['a kind that is too long', ['request', 1, 'k'.repeat(65), new Uint8Array(0)]],
    ['a kind with a control character', ['request', 1, 'a\nb', new Uint8Array(0)]],
    ['an unknown type', ['steal', 1, 'k', new Uint8Array(0)]],
    ['a type of the prototype', ['constructor', 1, 'k', new Uint8Array(0)]],
    ['a text as body', ['request', 1, 'k', 'body']],
    ['five fields', ['request', 1, 'k', new Uint8Array(0), 1]],
    ['three fields', ['request', 1, 'k']],
  ])('with %s are refused', (_, fields) => {
    expect(readHostile([lengthPrefixed(encode(fields))])).toEqual({ frames: [], isRefused: true })
  })

  it('after the end of a frame’s content are refused', () => {
    const content = Buffer.concat([encodeFrame('close').subarray(4), Uint8Array.of(0)])
    expect(readHostile([lengthPrefixed(content)]).isRefused).toBe(true)
  })

  it.each([0, limits.frameSizeBytesMax + 1, 2 ** 31, 2 ** 32 - 1])(
    'that announce %i bytes are refused at the fourth byte',
    (announced) => {
      const bytes = new Uint8Array(4)
      new DataView(bytes.buffer).setUint32(0, announced)
      expect(readHostile([bytes.subarray(0, 3)]).isRefused).toBe(false)
      expect(readHostile([bytes]).isRefused).toBe(true)
    },
  )

  it('cost no memory before they arrive', () => {
    const bytes = new Uint8Array(4)
    new DataView(bytes.buffer).setUint32(0, limits.frameSizeBytesMax)
    const before = process.memoryUsage().arrayBuffers
    const readers = Array.from({ length: 200 }, () => new FrameReader())
    for (const reader of readers) expect([...reader.push(bytes), ...reader.push(bytes)]).toEqual([])
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20 * limits.frameSizeBytesMax)
    expect(readers).toHaveLength(200)
  })

  it('that nest a million arrays are refused without building them', () => {
    const content = new Uint8Array(limits.frameSizeBytesMax).fill(0x91)
    expect(readHostile([lengthPrefixed(content)])).toEqual({ frames: [], isRefused: true })
  })
})
