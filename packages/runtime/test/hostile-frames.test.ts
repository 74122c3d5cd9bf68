/**
 * Hundreds of thousands of hostile streams against everything that reads bytes of a peer before and after
 * its admission: frame reader, frame, hello, refusal. Made from a committed corpus of valid frames.
 * Each is read, or refused with the one allowed error; nothing else is thrown, and nothing is kept.
 */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asEngineId, asIncarnation, ConnectorError, limits } from '@kvferry/connector-api'
import { createByteMutator } from '@kvferry/connector-api/testing'
import { FrameReader } from '../src/side-channel/frame-reader.ts'
import type { Frame } from '../src/side-channel/frame.ts'
import { judgeHello } from '../src/side-channel/hello.ts'
import { decodeRefusal } from '../src/side-channel/refusal.ts'

const streamCount = 400_000
const bodyCount = 150_000

const corpus = Object.entries(
  JSON.parse(readFileSync(new URL('./corpus/frames.json', import.meta.url), 'utf8')) as Record<
    string,
    string
  >,
).map(([name, hex]) => ({ name, bytes: Uint8Array.from(Buffer.from(hex, 'hex')) }))

const identity = { engineId: asEngineId('p0'), incarnation: asIncarnation('p0-1') }
const policy = { identity, peers: null, isLoopbackOnly: true }
const context = { remoteHost: '127.0.0.1', expectedEngineId: null, certifiedEngineId: null }

interface Tally {
  frames: number
  refused: number
}

/** Not `expect`: it costs more than what it would check, and is called half a million times. */
function mustBe(condition: boolean, what: string): void {
  if (!condition) throw new Error(what)
}

/** What an association, or the hello before it, does with a frame; handlers are the connectors' affair. */
function digest({ type, body }: Frame, tally: Tally): void {
  tally.frames++
  if (type === 'hello' && ConnectorError.isInstance(judgeHello(body, policy, context))) {
    tally.refused++
  }
  if (type === 'refusal') mustBe(ConnectorError.isInstance(decodeRefusal(body)), 'no error')
}

function readStream(bytes: Uint8Array, tally: Tally): void {
  const reader = new FrameReader()
  const half = bytes.length >> 1
  try {
    for (const chunk of [bytes.subarray(0, half), bytes.subarray(half)]) {
      for (const frame of reader.push(chunk)) digest(frame, tally)
    }
  } catch (error) {
    if (!ConnectorError.isInstance(error) || error.code !== 'ERR_KV_MESSAGE_INVALID') throw error
    tally.refused++
  }
}

/** `run`'s lasting memory, after everything that was let go is collected as far as it will be. */
function growthBytes(run: () => void): number {
  const size = (): number => {
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const before = size()
  run()
  return size() - before
}

/** A stack trace for each refusal would be most of the work. */
const { stackTraceLimit } = Error
beforeAll(() => {
  Error.stackTraceLimit = 0
})
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit
})

describe('the corpus', () => {
  it.each(corpus)('$name is read', ({ bytes }) => {
    const tally = { frames: 0, refused: 0 }
    const reader = new FrameReader()
    for (const frame of reader.push(bytes)) digest(frame, tally)
    expect(tally.frames).toBeGreaterThan(0)
  })
})

describe(`${streamCount + bodyCount} hostile messages`, () => {
  it('as streams are frames or refused', () => {
    const next = createByteMutator({ corpus: corpus.map(({ bytes }) => bytes), seed: 20_261 })
    const tally = { frames: 0, refused: 0 }
    const growth = growthBytes(() => {
      for (let count = 0; count < streamCount; count++) readStream(next(), tally)
    })
    // Both happen often, or the corpus and the mutations say nothing.
    expect(tally.refused).toBeGreaterThan(streamCount / 4)
    expect(tally.frames).toBeGreaterThan(streamCount / 20)
    expect(growth).toBeLessThan(200_000_000)
  }, 60_000)

  it('as bodies of hello and refusal are judged, and never let anybody in by accident', () => {
    const frames = corpus.flatMap(({ bytes }) => [...new FrameReader().push(bytes)])
    const bodiesOf = (type: Frame['type']) =>
      frames.filter((frame) => frame.type === type).map(({ body }) => body)
    const nextHello = createByteMutator({ corpus: bodiesOf('hello'), seed: 7 })
    const nextRefusal = createByteMutator({ corpus: bodiesOf('refusal'), seed: 8 })
    const admitted = new Set<string>()
    for (let count = 0; count < bodyCount / 2; count++) {
      const verdict = judgeHello(nextHello(), policy, context)
      if (ConnectorError.isInstance(verdict)) continue
      const { engineId } = verdict
      mustBe(Buffer.byteLength(engineId) <= limits.idSizeBytesMax, 'an id that is too long')
      mustBe(![...engineId].some((character) => character < ' '), 'an id for log forgers')
      admitted.add(engineId)
    }
    expect(admitted).not.toContain('p0')
    for (let count = 0; count < bodyCount / 2; count++) {
      mustBe(ConnectorError.isInstance(decodeRefusal(nextRefusal())), 'no error')
    }
  }, 60_000)
})
