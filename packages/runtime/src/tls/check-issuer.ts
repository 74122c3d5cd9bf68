/**
 * Whether the certificate of an engine leads to the CA beside it, as its peers will want it to. Called by
 * `kvferry check-config` only: an engine may start with two that don't belong together, where its peers
 * trust another CA than it does; but mostly it is a mistake, and one that only its peers would notice.
 */
import { X509Certificate } from 'node:crypto'
import { resolve } from 'node:path'
import type { TlsFiles } from '@kvferry/connector-api'
import { configError, showValue } from '../config/problem.ts'
import type { TlsMaterial } from './credentials.ts'

const block = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g
/** Certificates between an engine's and the CA's. */
const chainLengthMax = 8

const parseAll = (pem: string): X509Certificate[] =>
  (pem.match(block) ?? []).map((text) => new X509Certificate(text))

const isIssuedBy = (certificate: X509Certificate, issuer: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)

/** @throws ConnectorError ERR_KV_CONFIG: no peer with this CA would let this certificate in. */
export function checkIssuer(files: TlsFiles, { ca, cert }: TlsMaterial): void {
  const anchors = parseAll(ca)
  const [own, ...between] = parseAll(cert)
  let current = own
  for (let length = 0; current !== undefined && length <= chainLengthMax; length++) {
    const last: X509Certificate = current
    if (anchors.some((anchor) => isIssuedBy(last, anchor))) return
    current = between.find((issuer) => issuer !== last && isIssuedBy(last, issuer))
  }
  const issuer = own?.issuer.replaceAll('\n', ', ') ?? 'nobody'
  const remedy = `use a certificate that the CA of sideChannel.tls.ca issued: this one is of another (${issuer})`
  throw configError([
    { field: 'sideChannel.tls.cert', value: showValue(resolve(files.cert)), remedy },
  ])
}
