/**
 * A called server whose certificate's time is wrong: the calling engine refuses it by itself, says why, and
 * counts it. No engine starts with such files, so a plain TLS server has to present them.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { asEngineId, type AnyConnectorError, type TlsFiles } from '@kvferry/connector-api'
import { createTestCertificates, type TestCertificates } from '../support/certificates.ts'
import { createTestNet, type TestNet } from '../support/side-channels.ts'

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

/** Speaks TLS with whoever has a certificate of the CA, and says nothing. */
async function serve({ ca, cert, key }: TlsFiles) {
  const files = { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) }
  const server = createServer({ ...files, requestCert: true, minVersion: 'TLSv1.3' })
  server.on('secureConnection', (socket) => socket.on('error', () => {}).resume())
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { port, close: () => new Promise((resolve) => server.close(resolve)) }
}

it.each([
  ['has expired', { from: -10, until: -1 }, /: it expired /],
  ['begins tomorrow', { from: 1, until: 2 }, /: it begins only /],
])('a server whose certificate %s is refused by the caller, who says why', async (_, time, why) => {
  const tls = await certificates.issue('d0')
  const config = { host: '127.0.0.1', port: 0, insecure: false, tls }
  const d = await net.engine('d0', { config })
  const server = await serve(await certificates.issue('p0', time))
  try {
    const address = { host: '127.0.0.1', port: server.port, engineId: asEngineId('p0') }
    const refusal = await d.channel.connect(address).then(
      () => expect.unreachable('it was let in'),
      (error: unknown) => error as AnyConnectorError,
    )
    expect(refusal.code).toBe('ERR_KV_UNAUTHORISED')
    expect(refusal.message).toMatch(
      /^engine "d0" refuses the certificate for engine "p0" of p0 at 127.0.0.1:\d+: /,
    )
    expect(refusal.message).toMatch(why)
    expect(d.metrics.refused('side-channel-certificate')).toBe(1)
  } finally {
    await server.close()
  }
})
