/**
 * Mutual TLS between real sockets: who is let in, who isn't, what both sides are told, and new certificates
 * without a restart. Every refusal is counted, and the channel goes on serving the others.
 */
import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { asEngineId, type AnyConnectorError, type TlsFiles } from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { encodeFrame } from '../../src/side-channel/frame.ts'
import { encodeHello } from '../../src/side-channel/hello.ts'
import { sideChannelLimits } from '../../src/side-channel/limits.ts'
import {
  createTestCertificates,
  newAuthority,
  type TestCertificates,
} from '../support/certificates.ts'
import {
  createTestNet,
  text,
  utf8,
  type TestEngine,
  type TestNet,
} from '../support/side-channels.ts'
import { firstRefusal, rawTls } from '../support/tls-peer.ts'

let certificates: TestCertificates
beforeAll(async () => {
  certificates = await createTestCertificates()
})
afterAll(() => certificates.close())

let net: TestNet
beforeEach(() => {
  net = createTestNet()
})
afterEach(() => net.close())

const channelConfig = (tls: TlsFiles | null) => ({
  host: '127.0.0.1',
  port: 0,
  insecure: false,
  tls,
})

const engine = async (name: string, tls: TlsFiles | null, options = {}): Promise<TestEngine> => {
  const started = await net.engine(name, { config: channelConfig(tls), ...options })
  started.channel.handle('echo', (body) => body)
  return started
}
const proper = async (name: string, options = {}) =>
  engine(name, await certificates.issue(name), options)

async function refusalOf(attempt: Promise<unknown>): Promise<AnyConnectorError> {
  return attempt.then(
    () => expect.unreachable('it was let in'),
    (error: unknown) => error as AnyConnectorError,
  )
}

async function expectServes(p: TestEngine): Promise<void> {
  const friend = await proper(`friend-${Math.floor(Math.random() * 1e9)}`)
  const association = await friend.channel.connect(p.addressFor())
  expect(text(await association.request('echo', utf8('here')))).toBe('here')
}

describe('with certificates of one CA', () => {
  it('engines talk, under TLS 1.3, and each knows the other by its certificate', async () => {
    const p = await proper('p0')
    const d = await proper('d0')
    let caller = ''
    p.channel.handle('who', (body, from) => {
      caller = from.peer.engineId
      return body
    })
    const association = await d.channel.connect(p.addressFor())
    expect(text(await association.request('who', utf8('x')))).toBe('x')
    expect([caller, association.peer.engineId]).toEqual(['d0', 'p0'])
    const raw = await rawTls(p, await certificates.issue('d0'))
    expect(raw.getProtocol()).toBe('TLSv1.3')
    raw.destroy()
  })

  it('large bodies arrive whole, in both directions', async () => {
    const p = await proper('p0')
    const d = await proper('d0')
    const body = new Uint8Array(1_000_000).map((_, index) => index % 251)
    const association = await d.channel.connect(p.addressFor())
    const echoed = await association.request('echo', body)
    expect(Buffer.compare(echoed, body)).toBe(0)
  })

  it('peers that are listed are let in, others with a good certificate are not', async () => {
    const peers = [{ host: '127.0.0.1', port: 1, engineId: asEngineId('d0') }]
    const p = await proper('p0', { peers })
    const [d0, d1] = [await proper('d0'), await proper('d1')]
    expect((await d0.channel.connect(p.addressFor())).isOpen).toBe(true)
    const refusal = await refusalOf(d1.channel.connect(p.addressFor()))
    expect(refusal.code).toBe('ERR_KV_UNAUTHORISED')
    expect(refusal.message).toMatch(/"d1" is not among the configured peers of engine "p0"/)
    expect(p.metrics.refused('side-channel-hello')).toBe(1)
  })
})

describe('a called engine refuses, and both sides are told of both,', () => {
  it.each([
    ['of an unknown CA', async () => ({ authority: await newAuthority() }), /not issued by the CA/],
    ['that has expired', async () => ({ from: -10, until: -1 }), /it expired /],
    ['that begins tomorrow', async () => ({ from: 1, until: 2 }), /it begins only /],
  ])('a certificate %s', async (_, options, why) => {
    const p = await proper('p0')
    const files = await certificates.issue('d0', await options())
    // An engine would not start with it: somebody else has to present it.
    const socket = await rawTls(p, files)
    const refusal = await firstRefusal(socket)
    expect(refusal.code).toBe('ERR_KV_UNAUTHORISED')
    expect(refusal.message).toMatch(
      /^engine "p0" refuses the certificate for engine "d0" of 127.0.0.1: /,
    )
    expect(refusal.message).toMatch(why)
    expect(p.metrics.refused('side-channel-certificate')).toBe(1)
    await expectServes(p)
  })

  it('no certificate', async () => {
    const p = await proper('p0')
    const { ca } = await certificates.issue('d0')
    const refusal = await firstRefusal(await rawTls(p, { ca }))
    expect(refusal).toMatchObject({ code: 'ERR_KV_UNAUTHORISED' })
    expect(refusal.message).toMatch(/"p0" refuses 127.0.0.1: it presented no certificate/)
    expect(p.metrics.refused('side-channel-certificate')).toBe(1)
    await expectServes(p)
  })

  it('a session without certificate that is resumed', async () => {
    const p = await proper('p0')
    const { ca } = await certificates.issue('d0')
    const first = await rawTls(p, { ca })
    const [session] = (await once(first, 'session')) as [Buffer]
    first.destroy()
    const { port } = p.channel.address
    const again = connectTls({
      host: '127.0.0.1',
      port,
      rejectUnauthorized: false,
      session,
      ca: readFileSync(ca),
    })
    again.on('error', () => {})
    await once(again, 'secureConnect')
    expect(again.isSessionReused()).toBe(true)
    expect((await firstRefusal(again)).message).toMatch(/sessions are not resumed/)
    expect(p.metrics.refused('side-channel-certificate')).toBe(2)
  })

  it('a hello under another name than the certificate’s', async () => {
    const p = await proper('p0')
    const socket = await rawTls(p, await certificates.issue('d1'))
    const body = encodeHello({ engineId: asEngineId('d0'), incarnation: 'x' as never })
    socket.write(encodeFrame('hello', { body }))
    const refusal = await firstRefusal(socket)
    expect(refusal.message).toBe(
      'engine "p0" refuses a hello of engine "d0" under the certificate of engine "d1"',
    )
    expect(p.metrics.refused('side-channel-hello')).toBe(1)
  })

  it('TLS 1.2', async () => {
    const p = await proper('p0')
    const socket = connectTls({
      host: '127.0.0.1',
      port: p.channel.address.port,
      rejectUnauthorized: false,
      maxVersion: 'TLSv1.2',
    })
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
    expect(error.code).toMatch(/PROTOCOL_VERSION|VERSION/)
    await expect.poll(() => p.metrics.refused('side-channel-tls')).toBe(1)
    await expectServes(p)
  })
})

describe('a calling engine refuses', () => {
  it('a server of an unknown CA, and tells it', async () => {
    const stranger = await certificates.issue('p0', { authority: await newAuthority() })
    const honest = await certificates.issue('p1')
    // The stranger's own files are consistent for itself: it trusts its own CA and ours.
    const p = await engine('p0', stranger)
    const d = await engine('d0', await certificates.issue('d0'))
    const refusal = await refusalOf(d.channel.connect(p.addressFor()))
    expect(refusal.code).toBe('ERR_KV_UNAUTHORISED')
    expect(refusal.message).toMatch(
      /^engine "d0" refuses the certificate for engine "p0" of p0 at 127.0.0.1:\d+: it was not issued/,
    )
    expect(d.metrics.refused('side-channel-certificate')).toBe(1)
    expect(p.ended).toEqual([])
    expect(honest.ca).toBeTruthy()
  })

  it('an engine with another name than was called', async () => {
    const p1 = await proper('p1')
    const d = await proper('d0')
    const address = { ...p1.addressFor(), engineId: asEngineId('p0') }
    const refusal = await refusalOf(d.channel.connect(address))
    expect(refusal).toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      details: { field: 'engineId', local: 'p0', remote: 'p1' },
    })
  })

  it('a plain side channel: each says what the other speaks', async () => {
    const p = await engine('p0', null)
    const d = await proper('d0')
    const refusal = await refusalOf(d.channel.connect(p.addressFor()))
    expect(refusal).toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      details: { field: 'sideChannel.tls', local: 'mutual TLS 1.3', remote: 'plain TCP' },
    })
    expect(refusal.message).toMatch(/engine "d0" .* p0 at 127.0.0.1/)
    expect(d.metrics.refused('side-channel-tls')).toBe(1)
    await expect.poll(() => p.metrics.refused('side-channel-hello')).toBe(1)
  })
})

describe('an engine with certificates', () => {
  it('tells a plain caller what is missing', async () => {
    const p = await proper('p0')
    const d = await engine('d0', null)
    const refusal = await refusalOf(d.channel.connect(p.addressFor()))
    expect(refusal).toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      details: { field: 'sideChannel.tls', local: 'mutual TLS 1.3', remote: 'plain TCP' },
    })
    expect(refusal.message).toMatch(
      /engine "p0" speaks mutual TLS 1.3 and 127.0.0.1 speaks plain TCP/,
    )
    expect(p.metrics.refused('side-channel-tls')).toBe(1)
    await expectServes(p)
  })

  it('is not moved by garbage, half a handshake, or silence', async () => {
    const p = await proper('p0')
    const { port } = p.channel.address
    const sockets = [
      Buffer.of(0x16, 3, 1, 0xff, 0xff, 0, 0),
      Buffer.concat([Buffer.of(0x16, 3, 1, 0, 4), Buffer.from('XXXX')]),
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      Buffer.of(0x16),
    ].map((bytes) => {
      const socket = connectTcp({ host: '127.0.0.1', port })
      socket.on('error', () => {})
      socket.write(bytes)
      return socket
    })
    await expect.poll(() => p.metrics.refused('side-channel-tls')).toBeGreaterThanOrEqual(2)
    await expectServes(p)
    for (const socket of sockets) socket.destroy()
    await expectServes(p)
  })

  it('gives a handshake no longer than its deadline, and a place to no more than the bound', async () => {
    const clock = createSimClock()
    const p = await proper('p0', { clock })
    const { port } = p.channel.address
    const strangers = Array.from({ length: sideChannelLimits.handshakeCountMax + 1 }, () => {
      const socket = connectTcp({ host: '127.0.0.1', port })
      socket.on('error', () => {})
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.write(Buffer.of(0x16))
      return closed
    })
    await expect.poll(() => p.metrics.refused('side-channel-connection')).toBe(1)
    await clock.advance(sideChannelLimits.helloTimeoutMs)
    await Promise.all(strangers)
    expect(p.metrics.refused('side-channel-tls')).toBe(sideChannelLimits.handshakeCountMax)
  })

  it('closes although handshakes are open', async () => {
    const p = await proper('p0')
    const socket = connectTcp({ host: '127.0.0.1', port: p.channel.address.port })
    socket.on('error', () => {})
    await once(socket, 'connect')
    const closed = new Promise((resolve) => socket.once('close', resolve))
    await p.channel.close()
    await closed
  })
})
