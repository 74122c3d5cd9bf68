/**
 * Somebody else under the name of a connected engine: with certificates he doesn't get in; without, he is
 * at least never called at another address than the engine's own.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  createTestCertificates,
  newAuthority,
  type TestCertificates,
} from '../support/certificates.ts'
import { createTestNet, text, utf8, type TestNet } from '../support/side-channels.ts'
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

async function proper(name: string) {
  const tls = await certificates.issue(name)
  const config = { host: '127.0.0.1', port: 0, insecure: false, tls }
  const started = await net.engine(name, { config })
  started.channel.handle('echo', (body) => body)
  return started
}

describe('a second process under a trusted name', () => {
  it('does not get in, and the engine of that name keeps its association', async () => {
    const p = await proper('p0')
    const d = await proper('d0')
    const association = await d.channel.connect(p.addressFor())
    const impostor = await certificates.issue('impostor', {
      name: 'd0',
      authority: await newAuthority(),
    })
    const socket = await rawTls(p, impostor)
    expect((await firstRefusal(socket)).code).toBe('ERR_KV_UNAUTHORISED')
    expect(association.isOpen).toBe(true)
    expect(text(await association.request('echo', utf8('still')))).toBe('still')
    expect(p.ended).toEqual([])
  })
})

describe('an address from a handoff', () => {
  it('is not called under the name of an engine that is connected elsewhere', async () => {
    const [p, d, trap] = [await net.engine('p0'), await net.engine('d0'), await net.engine('trap')]
    const association = await d.channel.connect(p.addressFor())
    const lie = { ...trap.addressFor(), engineId: p.addressFor().engineId }
    await expect(d.channel.connect(lie)).rejects.toMatchObject({ code: 'ERR_KV_UNAUTHORISED' })
    expect(association.isOpen).toBe(true)
    expect(trap.metrics.refused()).toBe(0)
    expect(d.ended).toEqual([])
  })

  it('that names the same place in another way leads to the same association', async () => {
    const [p, d] = [await net.engine('p0'), await net.engine('d0')]
    const association = await d.channel.connect(p.addressFor())
    const other = { ...p.addressFor(), host: 'localhost' }
    expect(await d.channel.connect(other)).toBe(association)
  })

  it('is called again once the engine is gone from its old one', async () => {
    const [p, d] = [await net.engine('p0'), await net.engine('d0')]
    await d.channel.connect(p.addressFor())
    const end = d.nextEnd()
    await p.channel.close()
    await end
    const next = await net.engine('p0', { incarnation: 'p0-2' })
    expect((await d.channel.connect(next.addressFor())).peer.incarnation).toBe('p0-2')
  })
})
