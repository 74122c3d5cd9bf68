/** The channel as a whole: listening, calling, sharing, admission between real engines, closing. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { execFileSync } from 'node:child_process'
import { asEngineId, InvariantError } from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { createTestNet, text, utf8, type TestNet } from '../support/side-channels.ts'

let net: TestNet
beforeEach(() => {
  net = createTestNet()
})
afterEach(() => net.close())

const loopback = { host: '127.0.0.1', port: 0, insecure: false, tls: null }

describe('listening', () => {
  it('takes any free port, on loopback only', async () => {
    const { channel } = await net.engine('p0')
    expect(channel.address.host).toBe('127.0.0.1')
    const listeners = execFileSync('cat', ['/proc/net/tcp', '/proc/net/tcp6'], { encoding: 'utf8' })
    const port = channel.address.port.toString(16).toUpperCase().padStart(4, '0')
    const own = listeners
      .split('\n')
      .filter((line) => /^ *\d+: /.test(line) && line.includes(`:${port} `))
    const bound = own
      .filter((line) => line.split(/ +/)[4] === '0A')
      .map((line) => line.split(/ +/)[2])
    expect(bound).toEqual([`0100007F:${port}`])
  })

  it('says what to do when the port is taken', async () => {
    const { channel } = await net.engine('p0')
    const config = { ...loopback, port: channel.address.port }
    await expect(net.engine('p1', { config })).rejects.toMatchObject({
      code: 'ERR_KV_CONFIG',
      details: { field: 'sideChannel.port', value: `${config.port}` },
    })
  })

  it('says what to do when the address isn’t this machine’s', async () => {
    const config = { ...loopback, host: '192.0.2.1', insecure: true }
    await expect(net.engine('p0', { config })).rejects.toMatchObject({
      code: 'ERR_KV_CONFIG',
      details: { field: 'sideChannel.host' },
    })
  })

  it('refuses what parseConfig refuses, also for a config made in code', async () => {
    const tls = { ca: 'a', cert: 'b', key: 'c' }
    for (const wrong of [{ host: '192.0.2.1' }, { host: '0.0.0.0', insecure: true }, { tls }]) {
      const attempt = net.engine('p0', { config: { ...loopback, ...wrong } })
      await expect(attempt).rejects.toMatchObject({ code: 'ERR_KV_CONFIG' })
    }
  })

  it('accepts "localhost" and tells where that was', async () => {
    const { channel } = await net.engine('p0', { config: { ...loopback, host: 'localhost' } })
    expect(['127.0.0.1', '::1']).toContain(channel.address.host)
  })
})

describe('calling', () => {
  it('gives every caller the same association, at the same time and later', async () => {
    const p = await net.engine('p0')
    const d = await net.engine('d0')
    const calls = Array.from({ length: 10 }, () => d.channel.connect(p.addressFor()))
    const associations = new Set([
      ...(await Promise.all(calls)),
      await d.channel.connect(p.addressFor()),
    ])
    expect(associations.size).toBe(1)
  })

  it('is two associations when both call each other', async () => {
    const p = await net.engine('p0')
    const d = await net.engine('d0')
    p.channel.handle('echo', (body) => body)
    d.channel.handle('echo', (body) => body)
    const [toP, toD] = await Promise.all([
      d.channel.connect(p.addressFor()),
      p.channel.connect(d.addressFor()),
    ])
    expect(text(await toP.request('echo', utf8('a')))).toBe('a')
    expect(text(await toD.request('echo', utf8('b')))).toBe('b')
  })

  it('fails for an engine under another name, on both sides, and counts it', async () => {
    const p = await net.engine('p0')
    const d = await net.engine('d0')
    const end = p.nextEnd()
    const address = { ...p.addressFor(), engineId: asEngineId('p1') }
    await expect(d.channel.connect(address)).rejects.toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      details: { field: 'engineId', local: 'p1', remote: 'p0' },
    })
    await end
    expect(d.metrics.refused('side-channel-hello')).toBe(1)
  })

  it('follows the peers lists of both sides', async () => {
    const d = await net.engine('d0')
    const dPeer = { host: 'localhost', port: d.channel.address.port, engineId: asEngineId('d0') }
    const p = await net.engine('p0', { peers: [dPeer] })
    expect((await p.channel.connect(d.addressFor())).peer.engineId).toBe('d0')
    expect((await d.channel.connect(p.addressFor())).peer.engineId).toBe('p0')

    const stranger = await net.engine('d1')
    await expect(stranger.channel.connect(p.addressFor())).rejects.toMatchObject({
      code: 'ERR_KV_UNAUTHORISED',
      message: expect.stringContaining('"d1" is not among the configured peers') as string,
    })
    expect(p.metrics.refused('side-channel-hello')).toBe(1)
    await expect(p.channel.connect(stranger.addressFor())).rejects.toMatchObject({
      code: 'ERR_KV_UNAUTHORISED',
    })
    const moved = { ...d.addressFor(), port: stranger.channel.address.port }
    await expect(p.channel.connect(moved)).rejects.toMatchObject({ code: 'ERR_KV_UNAUTHORISED' })
  })

  it('never leaves this machine when no peers are listed', async () => {
    const p = await net.engine('p0')
    const address = { host: '192.0.2.1', port: 1, engineId: asEngineId('d0') }
    await expect(p.channel.connect(address)).rejects.toMatchObject({ code: 'ERR_KV_UNAUTHORISED' })
  })

  it('of a port that is none is the caller’s mistake', async () => {
    const p = await net.engine('p0')
    for (const port of [0, -1, 65_536, 1.5, NaN]) {
      await expect(p.channel.connect({ ...p.addressFor(), port })).rejects.toThrow(RangeError)
    }
  })

  it('of oneself is refused', async () => {
    const p = await net.engine('p0')
    await expect(p.channel.connect(p.addressFor())).rejects.toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
    })
  })

  it('between two engines of one name is refused by the called one', async () => {
    const one = await net.engine('p0')
    const other = await net.engine('p0', { incarnation: 'other' })
    const address = { ...other.addressFor(), engineId: asEngineId('p9') }
    await expect(one.channel.connect(address)).rejects.toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      message: expect.stringContaining('on both sides') as string,
    })
  })
})

describe('closing', () => {
  it('is idempotent, ends everything, and refuses what comes after', async () => {
    const p = await net.engine('p0')
    const d = await net.engine('d0')
    const association = await d.channel.connect(p.addressFor())
    const end = p.nextEnd()
    await Promise.all([d.channel.close(), d.channel.close()])
    await d.channel.close()
    await end
    expect(association.isOpen).toBe(false)
    expect(d.ended).toEqual([association])
    await expect(d.channel.connect(p.addressFor())).rejects.toMatchObject({ code: 'ERR_KV_CLOSED' })
    await expect(p.channel.connect(d.addressFor())).rejects.toMatchObject({
      code: 'ERR_KV_PEER_UNAVAILABLE',
      message: expect.stringContaining('ECONNREFUSED') as string,
    })
  })

  it('gives up calls that are under way', async () => {
    const d = await net.engine('d0')
    const p = await net.engine('p0')
    const call = d.channel.connect(p.addressFor())
    const failure = expect(call).rejects.toMatchObject({ code: 'ERR_KV_CLOSED' })
    await d.channel.close()
    await failure
  })

  it('doesn’t wait for a stranger’s hello', async () => {
    const p = await net.engine('p0', { clock: createSimClock() })
    const stranger = await net.raw(p)
    const friend = await net.engine('d0')
    // Accepted after the stranger, who therefore is known too.
    await friend.channel.connect(p.addressFor())
    await p.channel.close()
    await stranger.closed
  })

  it('leaves no timer behind; before it all requests of an association share one', async () => {
    const clock = createSimClock()
    const p = await net.engine('p0', { clock })
    const d = await net.engine('d0', { clock })
    p.channel.handle('echo', (body) => body)
    const association = await d.channel.connect(p.addressFor())
    await association.request('echo', utf8('x'))
    await association.request('unknown', utf8('x')).catch(() => {})
    await association.request('echo', utf8('x'), { timeoutMs: 1_000 })
    expect(clock.pendingCount).toBe(1)
    await Promise.all([p.channel.close(), d.channel.close()])
    expect(clock.pendingCount).toBe(0)
  })

  it('leaves no socket behind', async () => {
    const openSockets = () =>
      process.getActiveResourcesInfo().filter((name) => /^TCP/.test(name)).length
    // Other files' tests run in this process: what one of them is still closing is not ours.
    const before = openSockets()
    const p = await net.engine('p0')
    const d = await net.engine('d0')
    await d.channel.connect(p.addressFor())
    const raw = await net.raw(p)
    expect(openSockets() - before).toBeGreaterThanOrEqual(4)
    await Promise.all([p.channel.close(), d.channel.close()])
    await raw.closed
    expect(openSockets()).toBeLessThanOrEqual(before)
  })
})

it('a broken invariant in a handler is not answered: it stops the process', async () => {
  const p = await net.engine('p0')
  const d = await net.engine('d0')
  p.channel.handle('broken', () => {
    throw new InvariantError('two owners')
  })
  const association = await d.channel.connect(p.addressFor())
  const others = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  try {
    const uncaught = new Promise((resolve) => process.once('uncaughtException', resolve))
    void association.request('broken', utf8('')).catch(() => {})
    expect(await uncaught).toBeInstanceOf(InvariantError)
  } finally {
    for (const listener of others) process.on('uncaughtException', listener)
  }
})
