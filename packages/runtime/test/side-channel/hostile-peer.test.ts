/**
 * What a stranger or a broken engine can do to a listening side channel: be refused and counted. After each
 * attack the channel still serves the others.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import fc from 'fast-check'
import { encode } from '@msgpack/msgpack'
import { limits, WIRE_VERSION } from '@kvferry/connector-api'
import { createSimClock, type SimClock } from '@kvferry/connector-api/testing'
import { encodeFrame } from '../../src/side-channel/frame.ts'
import { sideChannelLimits } from '../../src/side-channel/limits.ts'
import { decodeRefusal } from '../../src/side-channel/refusal.ts'
import {
  createTestNet,
  text,
  utf8,
  type TestEngine,
  type TestNet,
} from '../support/side-channels.ts'

let clock: SimClock
let net: TestNet
let p: TestEngine
beforeEach(async () => {
  clock = createSimClock()
  net = createTestNet({ clock })
  p = await net.engine('p0')
  p.channel.handle('echo', (body) => body)
})
afterEach(() => net.close())

async function serves(engine: TestEngine): Promise<boolean> {
  const friend = await net.engine(`friend-${Math.random()}`)
  const association = await friend.channel.connect(engine.addressFor())
  return text(await association.request('echo', utf8('still here'))) === 'still here'
}

describe('before its hello, a peer', () => {
  it.each([
    ['speaks HTTP', utf8('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
    ['announces a gigabyte', Uint8Array.of(0x40, 0, 0, 0)],
    ['sends an empty frame', new Uint8Array(4)],
    ['sends a request at once', encodeFrame('request', { id: 1, kind: 'echo' })],
    ['sends an answer', encodeFrame('answer', { id: 1 })],
    ['says hello in garbage', encodeFrame('hello', { body: Uint8Array.of(0xc1, 0xc1) })],
  ])('that %s is told why, counted and hung up on', async (_, bytes) => {
    const raw = await net.raw(p)
    raw.write(bytes)
    const frame = await raw.take()
    expect(frame).toMatchObject({ type: 'refusal', id: 0 })
    expect(decodeRefusal(frame.body).code).toBe('ERR_KV_MESSAGE_INVALID')
    await raw.closed
    expect(p.metrics.refused('side-channel-hello')).toBe(1)
    expect(p.ended).toEqual([])
    expect(await serves(p)).toBe(true)
  })

  it('that stays silent holds its place until the deadline, not longer', async () => {
    const raw = await net.raw(p)
    raw.write(Uint8Array.of(0, 0))
    const other = await net.raw(p)
    other.hello()
    expect((await other.take()).type).toBe('hello')
    await clock.advance(sideChannelLimits.helloTimeoutMs - 1)
    expect(raw.frames).toEqual([])
    await clock.advance(1)
    expect(decodeRefusal((await raw.take()).body).code).toBe('ERR_KV_DEADLINE')
    await raw.closed
    expect(p.metrics.refused('side-channel-hello')).toBe(1)
  })

  it('that hangs up is no refusal', async () => {
    const raw = await net.raw(p)
    raw.destroy()
    await raw.closed
    expect(await serves(p)).toBe(true)
    expect(p.metrics.refused()).toBe(0)
  })

  it('can’t keep others out: strangers are bounded apart', async () => {
    const strangers = []
    for (let count = 0; count < sideChannelLimits.handshakeCountMax; count++) {
      strangers.push(await net.raw(p))
    }
    const one = await net.raw(p)
    const { details, code } = decodeRefusal((await one.take()).body)
    expect({ code, details }).toMatchObject({
      code: 'ERR_KV_LIMIT',
      details: { limit: 'handshakeCountMax' },
    })
    await one.closed
    expect(p.metrics.refused('side-channel-connection')).toBe(1)
    await clock.advance(sideChannelLimits.helloTimeoutMs)
    await Promise.all(strangers.map((stranger) => stranger.closed))
    expect(await serves(p)).toBe(true)
  })

  it('is refused for another wire version, with both named', async () => {
    const raw = await net.raw(p)
    raw.hello({ wireVersion: WIRE_VERSION + 1 })
    const error = decodeRefusal((await raw.take()).body)
    expect(error).toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      details: { local: String(WIRE_VERSION), remote: String(WIRE_VERSION + 1) },
    })
    await raw.closed
  })
})

describe('after its hello, a peer', () => {
  async function admitted(fields: Record<string, unknown> = {}) {
    const raw = await net.raw(p)
    raw.hello(fields)
    expect((await raw.take()).type).toBe('hello')
    return raw
  }

  it.each([
    ['garbage', Uint8Array.of(0, 0, 0, 2, 0xff, 0xff)],
    ['a second hello', encodeFrame('hello', { body: encode({}) })],
    ['a frame that is too large', Uint8Array.of(0xff, 0xff, 0xff, 0xff)],
  ])('that sends %s loses its association', async (_, bytes) => {
    const raw = await admitted()
    const end = p.nextEnd()
    raw.write(bytes)
    expect(decodeRefusal((await raw.take()).body).code).toBe('ERR_KV_MESSAGE_INVALID')
    expect((await end).peer.engineId).toBe('raw')
    await raw.closed
    expect(p.metrics.refused('side-channel-frame')).toBe(1)
    expect(await serves(p)).toBe(true)
  })

  it('may answer what was never asked', async () => {
    const raw = await admitted()
    raw.frame('answer', { id: 4 })
    raw.frame('refusal', { id: 5, body: utf8('?') })
    raw.frame('request', { id: 1, kind: 'echo', body: utf8('x') })
    expect(await raw.take()).toMatchObject({ type: 'answer', id: 1 })
  })

  it('learns from an unreadable refusal frame of ours nothing, and we of its: it just ends', async () => {
    const raw = await admitted()
    const end = p.nextEnd()
    raw.frame('refusal', { id: 0, body: utf8('?') })
    await end
    await raw.closed
  })

  it('that asks more at once than the bound is refused for the rest', async () => {
    let answerAll = (): void => {}
    const gate = new Promise<void>((resolve) => (answerAll = resolve))
    p.channel.handle('slow', (body) => gate.then(() => body))
    const raw = await admitted()
    const max = limits.requestsInFlightPerAssociationMax
    for (let id = 1; id <= max + 1; id++) raw.frame('request', { id, kind: 'slow' })
    const first = await raw.take()
    expect(first).toMatchObject({ type: 'refusal', id: max + 1 })
    expect(decodeRefusal(first.body).code).toBe('ERR_KV_LIMIT')
    expect(p.metrics.refused('side-channel-message')).toBe(1)
    answerAll()
    for (let id = 1; id <= max; id++) expect(await raw.take()).toMatchObject({ type: 'answer', id })
  })

  it('that doesn’t read is cut off before its answers fill the memory', async () => {
    const size = limits.frameSizeBytesMax - 100
    p.channel.handle('much', () => new Uint8Array(size))
    const raw = await admitted()
    raw.socket.pause()
    const end = p.nextEnd()
    for (let id = 1; id <= 100; id++) raw.frame('request', { id, kind: 'much' })
    expect((await end).isOpen).toBe(false)
    // What the system's own buffers took, and no more than our backlog on top.
    raw.socket.resume()
    await raw.closed
    expect(raw.frames.length).toBeLessThan(50)
    expect(await serves(p)).toBe(true)
  })

  it('of a new incarnation ends the association of the old one', async () => {
    const old = await admitted()
    const end = p.nextEnd()
    const next = await admitted({ incarnation: 'raw-2' })
    expect((await end).peer.incarnation).toBe('raw-1')
    expect(decodeRefusal((await old.take()).body).code).toBe('ERR_KV_WRONG_EPOCH')
    await old.closed
    next.frame('request', { id: 1, kind: 'echo' })
    expect((await next.take()).type).toBe('answer')
  })

  it('of the same incarnation may have several associations', async () => {
    const first = await admitted()
    await admitted()
    first.frame('request', { id: 1, kind: 'echo' })
    expect((await first.take()).type).toBe('answer')
  })

  it('that never reads our goodbye delays the shutdown by the farewell only', async () => {
    const raw = await admitted()
    raw.socket.pause()
    const closed = p.channel.close()
    await clock.advance(sideChannelLimits.farewellTimeoutMs)
    await closed
  })
})

it('associations are bounded, and the place of one that ended is free again', async () => {
  const open = []
  for (let count = 0; count < limits.associationCountMax; count++) {
    const raw = await net.raw(p)
    raw.hello({ engineId: `raw-${count}` })
    expect((await raw.take()).type).toBe('hello')
    open.push(raw)
  }
  const late = await net.raw(p)
  const { code, details } = decodeRefusal((await late.take()).body)
  expect({ code, details }).toMatchObject({
    code: 'ERR_KV_LIMIT',
    details: { limit: 'associationCountMax', max: limits.associationCountMax },
  })
  const other = await net.engine('other')
  await expect(p.channel.connect(other.addressFor())).rejects.toMatchObject({
    code: 'ERR_KV_LIMIT',
  })
  const end = p.nextEnd()
  open[0]?.destroy()
  await end
  expect(await serves(p)).toBe(true)
})

it('thousands of mutated conversations end in refusals, and nothing else', async () => {
  const conversation = Buffer.concat([
    encodeFrame('hello', {
      body: encode({ wireVersion: WIRE_VERSION, engineId: 'raw', incarnation: 'raw-1' }),
    }),
    encodeFrame('request', { id: 1, kind: 'echo', body: utf8('hello') }),
    encodeFrame('send', { kind: 'echo', body: utf8('note') }),
    encodeFrame('close'),
  ])
  const mutation = fc.record({
    place: fc.nat(conversation.length - 1),
    flip: fc.integer({ min: 1, max: 255 }),
    cut: fc.option(fc.nat(conversation.length)),
    splice: fc.uint8Array({ maxLength: 6 }),
  })
  const mutate = ({ place, flip, cut, splice }: (typeof samples)[number]): Buffer => {
    const bytes = Buffer.from(conversation)
    bytes[place] = (bytes[place] ?? 0) ^ flip
    const spliced = Buffer.concat([bytes.subarray(0, place), splice, bytes.subarray(place)])
    return spliced.subarray(0, cut ?? spliced.length)
  }
  const samples = fc.sample(mutation, { numRuns: 1_000, seed: 42 })
  for (let start = 0; start < samples.length; start += 40) {
    await Promise.all(
      samples.slice(start, start + 40).map(async (sample) => {
        const raw = await net.raw(p)
        raw.socket.end(mutate(sample))
        await raw.closed
      }),
    )
  }
  // The others were cut short or changed where any value is legal.
  expect(p.metrics.refused()).toBeGreaterThan(250)
  expect(await serves(p)).toBe(true)
}, 30_000)
