/** Two engines over loopback: requests, refusals, deadlines, ends. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ConnectorError, limits, type Association, type Logger } from '@kvferry/connector-api'
import { createTestNet, text, utf8, type TestNet } from '../support/side-channels.ts'

let net: TestNet
beforeEach(() => {
  net = createTestNet()
})
afterEach(() => net.close())

async function pair() {
  const p = await net.engine('p0')
  const d = await net.engine('d0')
  const toP = await d.channel.connect(p.addressFor())
  return { p, d, toP }
}

describe('requests', () => {
  it('are answered by the handler of their kind, which learns who asks', async () => {
    const { p, toP } = await pair()
    p.channel.handle('greet', (body, from) => utf8(`${text(body)} ${from.peer.engineId}`))
    p.channel.handle('other', () => utf8('wrong one'))
    expect(toP.peer).toEqual({ engineId: 'p0', incarnation: 'p0-1' })
    expect(text(await toP.request('greet', utf8('hello')))).toBe('hello d0')
  })

  it('carry an empty body and a large one', async () => {
    const { p, toP } = await pair()
    p.channel.handle('echo', (body) => body)
    expect(await toP.request('echo', new Uint8Array(0))).toHaveLength(0)
    const large = new Uint8Array(limits.frameSizeBytesMax - 100).map((_, index) => index * 7)
    expect(Buffer.compare(await toP.request('echo', large), large)).toBe(0)
  })

  it('run concurrently, and each gets its own answer, whatever the order', async () => {
    const { p, toP } = await pair()
    const finish: (() => void)[] = []
    p.channel.handle('slow', (body) => new Promise((resolve) => finish.push(() => resolve(body))))
    p.channel.handle('release', () => {
      for (const answer of finish.reverse()) answer()
      return utf8('')
    })
    const answers = Array.from({ length: 100 }, (_, index) => toP.request('slow', utf8(`${index}`)))
    await toP.request('release', utf8(''))
    expect((await Promise.all(answers)).map(text)).toEqual(answers.map((_, index) => `${index}`))
  })

  it('go both ways over one association', async () => {
    const { p, d, toP } = await pair()
    d.channel.handle('who', () => utf8('consumer'))
    p.channel.handle('ask-back', (_, from) => from.request('who', utf8('')))
    expect(text(await toP.request('ask-back', utf8('')))).toBe('consumer')
  })

  it('end at their deadline without ending the association, and a late answer is ignored', async () => {
    const { p, toP } = await pair()
    let finish = (): void => {}
    p.channel.handle('slow', (body) => new Promise((resolve) => (finish = () => resolve(body))))
    p.channel.handle('echo', (body) => body)
    await expect(toP.request('slow', utf8('late'), { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'ERR_KV_DEADLINE',
      details: { deadlineMs: 20 },
    })
    finish()
    expect(text(await toP.request('echo', utf8('next')))).toBe('next')
    expect(toP.isOpen).toBe(true)
  })

  it('are bounded in number', async () => {
    const { p, toP } = await pair()
    const finish: (() => void)[] = []
    p.channel.handle('slow', (body) => new Promise((resolve) => finish.push(() => resolve(body))))
    const count = limits.requestsInFlightPerAssociationMax
    const accepted = Array.from({ length: count }, () => toP.request('slow', utf8('')))
    await expect(toP.request('slow', utf8(''))).rejects.toMatchObject({
      code: 'ERR_KV_LIMIT',
      details: { limit: 'requestsInFlightPerAssociationMax' },
    })
    toP.close()
    const outcomes = await Promise.allSettled(accepted)
    expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true)
  })

  it('larger than a frame are refused before they are sent', async () => {
    const { toP } = await pair()
    const body = new Uint8Array(limits.frameSizeBytesMax)
    await expect(toP.request('echo', body)).rejects.toMatchObject({ code: 'ERR_KV_LIMIT' })
    expect(() => toP.send('echo', body)).toThrow(ConnectorError)
    expect(toP.isOpen).toBe(true)
  })

  it('of a kind that is no kind are the caller’s mistake', async () => {
    const { p, toP } = await pair()
    for (const kind of ['', 'with space', 'é', 'k'.repeat(65)]) {
      await expect(toP.request(kind, utf8(''))).rejects.toThrow(TypeError)
      expect(() => toP.send(kind, utf8(''))).toThrow(TypeError)
      expect(() => p.channel.handle(kind, (body) => body)).toThrow(TypeError)
    }
  })
})

describe('sends', () => {
  it('arrive in order, before a later request', async () => {
    const { p, toP } = await pair()
    const got: string[] = []
    p.channel.handle('note', (body) => {
      got.push(text(body))
      return utf8('')
    })
    p.channel.handle('echo', (body) => body)
    for (let index = 0; index < 50; index++) toP.send('note', utf8(`${index}`))
    await toP.request('echo', utf8(''))
    expect(got).toEqual(Array.from({ length: 50 }, (_, index) => `${index}`))
  })

  it('to a closed association are lost without an exception', async () => {
    const { toP } = await pair()
    toP.close()
    expect(() => toP.send('note', utf8('x'))).not.toThrow()
  })
})

describe('refusals', () => {
  it('carry the code, message and details of a ConnectorError', async () => {
    const { p, toP } = await pair()
    const details = { limit: 'requestCountMax', value: 9, max: 8 }
    p.channel.handle('no', () => {
      throw new ConnectorError('ERR_KV_LIMIT', 'too many requests', details)
    })
    const error: unknown = await toP.request('no', utf8('')).catch((thrown: unknown) => thrown)
    expect(ConnectorError.isInstance(error)).toBe(true)
    expect(error).toMatchObject({ code: 'ERR_KV_LIMIT', message: 'too many requests', details })
    expect(error).toMatchObject({ isRetryable: true })
  })

  it('hide an unexpected exception, which is logged instead', async () => {
    const logged: string[] = []
    const logger: Logger = {
      debug() {},
      info() {},
      warn() {},
      error: (message, fields) => logged.push(`${message} ${fields?.['stack']}`),
      child: () => logger,
    }
    const p = await net.engine('p0', { logger })
    const d = await net.engine('d0')
    p.channel.handle('boom', () => Promise.reject(new RangeError('secret 42')))
    p.channel.handle('wrong', () => 'not bytes' as unknown as Uint8Array)
    const toP = await d.channel.connect(p.addressFor())
    const error: unknown = await toP.request('boom', utf8('')).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'ERR_KV_MESSAGE_INVALID' })
    expect((error as Error).message).not.toContain('secret')
    expect(logged.join()).toContain('secret 42')
    await expect(toP.request('wrong', utf8(''))).rejects.toMatchObject({
      code: 'ERR_KV_MESSAGE_INVALID',
    })
    expect(toP.isOpen).toBe(true)
  })

  it('meet unknown kinds, which are counted', async () => {
    const { p, toP } = await pair()
    p.channel.handle('echo', (body) => body)
    toP.send('unknown', utf8(''))
    await expect(toP.request('unknown', utf8(''))).rejects.toMatchObject({
      code: 'ERR_KV_MESSAGE_INVALID',
    })
    expect(p.metrics.refused('side-channel-message')).toBe(2)
    expect(text(await toP.request('echo', utf8('still here')))).toBe('still here')
  })

  it('replace an answer that is too large for a frame', async () => {
    const { p, toP } = await pair()
    p.channel.handle('huge', () => new Uint8Array(limits.frameSizeBytesMax))
    await expect(toP.request('huge', utf8(''))).rejects.toMatchObject({ code: 'ERR_KV_LIMIT' })
    expect(toP.isOpen).toBe(true)
  })

  it('are not for a second handler of a kind: that is a TypeError', async () => {
    const p = await net.engine('p0')
    p.channel.handle('echo', (body) => body)
    expect(() => p.channel.handle('echo', (body) => body)).toThrow(TypeError)
  })
})

describe('the end of an association', () => {
  it('by close: requests in flight fail, both sides hear of it once', async () => {
    const { p, d, toP } = await pair()
    p.channel.handle('never', () => new Promise(() => {}))
    const request = toP.request('never', utf8(''))
    const atP = p.nextEnd()
    const atD = d.nextEnd()
    toP.close()
    toP.close()
    expect(toP.isOpen).toBe(false)
    await expect(request).rejects.toMatchObject({ code: 'ERR_KV_PEER_UNAVAILABLE' })
    expect((await atP).peer.engineId).toBe('d0')
    expect(await atD).toBe(toP)
    await expect(toP.request('never', utf8(''))).rejects.toMatchObject({
      code: 'ERR_KV_PEER_UNAVAILABLE',
    })
    await net.close()
    expect([p.ended.length, d.ended.length]).toEqual([1, 1])
  })

  it('by the other side’s close', async () => {
    const { p, d, toP } = await pair()
    let inbound: Association | undefined
    p.channel.handle('never', (_, from) => {
      inbound = from
      return new Promise(() => {})
    })
    p.channel.handle('hang-up', () => {
      inbound?.close()
      return utf8('')
    })
    const request = toP.request('never', utf8(''))
    const end = d.nextEnd()
    void toP.request('hang-up', utf8('')).catch(() => {})
    await expect(request).rejects.toMatchObject({ code: 'ERR_KV_PEER_UNAVAILABLE' })
    expect(await end).toBe(toP)
  })

  it('is followed by a new one when the peer is called again', async () => {
    const { p, d, toP } = await pair()
    p.channel.handle('echo', (body) => body)
    const end = d.nextEnd()
    toP.close()
    await end
    const again = await d.channel.connect(p.addressFor())
    expect(again).not.toBe(toP)
    expect(text(await again.request('echo', utf8('again')))).toBe('again')
  })

  it('by the peer’s shutdown, after which its new life is found at the same place', async () => {
    const { p, d, toP } = await pair()
    const end = d.nextEnd()
    const { port } = p.channel.address
    await p.channel.close()
    expect(await end).toBe(toP)
    await expect(d.channel.connect(p.addressFor())).rejects.toMatchObject({
      code: 'ERR_KV_PEER_UNAVAILABLE',
    })
    const config = { host: '127.0.0.1', port, insecure: false, tls: null }
    const next = await net.engine('p0', { config, incarnation: 'p0-2' })
    next.channel.handle('echo', (body) => body)
    const again = await d.channel.connect(p.addressFor())
    expect(again.peer.incarnation).toBe('p0-2')
    expect(text(await again.request('echo', utf8('new life')))).toBe('new life')
  })
})
