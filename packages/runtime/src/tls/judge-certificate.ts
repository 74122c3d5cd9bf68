/**
 * Whether the certificate of a peer is one that the configured CA issued, valid now, and who it names. Pure.
 * Called once per connection, by both sides, before anything that the peer says is read. Whether that
 * engine is welcome is decided with its hello (side-channel/hello.ts).
 */
import type { X509Certificate } from 'node:crypto'
import { ConnectorError, type AnyConnectorError, type EngineId } from '@kvferry/connector-api'
import { readEngineName } from './engine-name.ts'

/** What a finished TLS handshake shows of the other side. */
export interface PresentedCertificate {
  readonly certificate: Pick<X509Certificate, 'subjectAltName' | 'validFrom' | 'validTo'> | null
  /** OpenSSL's code, null when the chain leads to the CA and is valid now. */
  readonly authorizationError: string | null
  /** A resumed session skips the verification of the certificate. */
  readonly isSessionReused: boolean
}

export interface CertificateContext {
  readonly ownEngineId: EngineId
  /** The other side, as far as it is known without its certificate. */
  readonly peerName: string
}

function chainProblem(code: string, certificate: PresentedCertificate['certificate']): string {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return `it expired ${certificate?.validTo ?? ''}`
    case 'CERT_NOT_YET_VALID':
      return `it begins only ${certificate?.validFrom ?? ''}`
    case 'INVALID_PURPOSE':
      return 'its extended key usage must allow both clientAuth and serverAuth'
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'CERT_SIGNATURE_FAILURE':
      return `it was not issued by the CA of sideChannel.tls.ca (${code})`
    default:
      return `it can't be verified (${code})`
  }
}

/** The engine that the certificate names, or why the peer is refused. */
export function judgeCertificate(
  presented: PresentedCertificate,
  { ownEngineId, peerName }: CertificateContext,
): EngineId | AnyConnectorError {
  const { certificate, authorizationError, isSessionReused } = presented
  const refuse = (why: string): AnyConnectorError => {
    const reason = `engine "${ownEngineId}" refuses ${why}`
    return new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason })
  }
  if (isSessionReused) return refuse(`${peerName}: TLS sessions are not resumed here`)
  if (certificate === null) {
    return refuse(`${peerName}: it presented no certificate; set sideChannel.tls there`)
  }
  const name = readEngineName(certificate.subjectAltName)
  const named = name.kind === 'engine' ? ` for engine "${name.engineId}"` : ''
  const whose = `the certificate${named} of ${peerName}`
  if (authorizationError !== null) {
    return refuse(`${whose}: ${chainProblem(authorizationError, certificate)}`)
  }
  return name.kind === 'engine' ? name.engineId : refuse(`${whose}: ${name.reason}`)
}
