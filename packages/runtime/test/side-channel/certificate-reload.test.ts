/** New certificate files while the channel runs: used by new connections; broken ones are not, loudly. */
import { rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { silentLogger, type Logger } from '@kvferry/connector-api'
import { createSimClock, type SimClock } from '@kvferry/connector-api/testing'
import { tlsLimits } from '../../src/tls/limits.ts'
import {
  createTestCertificates,
  newAuthority,
  type TestCertificates,
} from '../support/certificates.ts'
import { createTestNet, text, utf8, type TestNet } from '../support/side-channels.ts'

let certificates: TestCertificates
let net: TestNet
let clock: SimClock
let log: string[]
let logger: Logger
beforeEach(async () => {
  certificates = await createTestCertificates()
  clock = createSimClock()
  net = createTestNet({ clock })
  log = []
  const keep = (message: string) => void log.push(message)
  logger = { ...silentLogger, info: keep, error: keep, warn: keep, child: () => logger }
})
afterEach(async () => {
  await net.close()
  certificates.close()
})

async function engine(name: string) {
  const tls = await certificates.issue(name)
  const config = { host: '127.0.0.1', port: 0, insecure: false, tls }
  const started = await net.engine(name, { config, logger })
  started.channel.handle('echo', (body) => body)
  return { ...started, tls }
}

/** Lets the clock run until the log says so: looking at files takes real time between two ticks. */
async function untilLogged(part: string): Promise<void> {
  const seen = () => log.some((line) => line.includes(part))
  await expect
    .poll(
      async () => {
        if (!seen()) await clock.advance(tlsLimits.lookIntervalMs)
        return seen()
      },
      { timeout: 10_000 },
    )
    .toBe(true)
}

it('a new CA and new certificates are used by the next connections, and open ones stay', async () => {
  const [p, d] = [await engine('p0'), await engine('d0')]
  const old = await d.channel.connect(p.addressFor())
  const authority = await newAuthority()
  await certificates.issue('p0', { authority })
  writeFileSync(p.tls.ca, authority.certificatePem)
  await untilLogged('certificates reloaded')
  expect(old.isOpen).toBe(true)
  expect(text(await old.request('echo', utf8('old')))).toBe('old')

  // d0 still trusts the old CA only.
  const d1 = await engine('d1')
  await expect(d1.channel.connect(p.addressFor())).rejects.toMatchObject({
    code: 'ERR_KV_UNAUTHORISED',
  })
  const files = await certificates.issue('d2', { authority })
  writeFileSync(files.ca, authority.certificatePem)
  const config = { host: '127.0.0.1', port: 0, insecure: false, tls: files }
  const d2 = await net.engine('d2', { config })
  const association = await d2.channel.connect(p.addressFor())
  expect(text(await association.request('echo', utf8('new')))).toBe('new')
})

it.each([
  ['is missing', (path: string) => rmSync(path)],
  ['is no PEM', (path: string) => writeFileSync(path, 'nonsense')],
  ['is cut', (path: string) => writeFileSync(path, '-----BEGIN CERTIFICATE-----\nMIIB')],
])(
  'a certificate that %s leaves the old one in use, loudly; once mended it is used',
  async (_, spoil) => {
    const p = await engine('p0')
    spoil(p.tls.cert)
    await untilLogged('NOT reloaded')
    const d = await engine('d0')
    expect((await d.channel.connect(p.addressFor())).isOpen).toBe(true)

    log.length = 0
    await untilLogged('NOT reloaded')
    await certificates.issue('p0')
    await untilLogged('certificates reloaded')
    const d1 = await engine('d1')
    expect((await d1.channel.connect(p.addressFor())).isOpen).toBe(true)
  },
)

it.each([
  ['of another engine', { name: 'p9' }],
  ['that has expired', { from: -10, until: -1 }],
])('a certificate %s is not taken up', async (_, options) => {
  const p = await engine('p0')
  await certificates.issue('p0', options)
  await untilLogged('NOT reloaded')
  const d = await engine('d0')
  expect((await d.channel.connect(p.addressFor())).isOpen).toBe(true)
})
