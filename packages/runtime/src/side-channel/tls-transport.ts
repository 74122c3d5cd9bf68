/**
 * Mutual TLS 1.3 under the side channel. Both sides finish the handshake whatever the certificates say, and
 * judge them afterwards (judge-certificate.ts), so that each can tell the other in a typed refusal why
 * it isn't let in; nothing is read from a peer before that. Sessions are never resumed: a certificate
 * that has expired or a CA that was replaced must count for the next connection.
 */
import type { Socket } from 'node:net'
import { connect, createServer, type Server, type TLSSocket } from 'node:tls'
import type { AnyConnectorError, EngineId } from '@kvferry/connector-api'
import type { CredentialStore } from '../tls/credential-store.ts'
import { judgeCertificate } from '../tls/judge-certificate.ts'
import { sideChannelLimits } from './limits.ts'
import { incompatible, peerUnavailable } from './peer-errors.ts'
import type { SecureAttempt, Transport } from './transport.ts'

/** First byte of every TLS connection (a handshake record); no frame of ours begins with it. */
const tlsHandshakeRecord = 0x16
const local = 'mutual TLS 1.3'

/** OpenSSL's words for an answer that isn't TLS at all. */
const plainAnswer = /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|RECORD_TOO_SMALL/

/** Of a live connection; unique among them. */
const placeOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

export class TlsTransport implements Transport {
  readonly kind = 'tls'
  readonly #store: CredentialStore
  readonly #ownEngineId: EngineId
  /** Never listens: accepted connections are handed to it once they have begun to speak TLS. */
  readonly #server: Server
  /** Accepted connections in their handshake. */
  readonly #accepting = new Map<string, (error: Error | null, socket: TLSSocket | null) => void>()

  constructor(store: CredentialStore, ownEngineId: EngineId) {
    this.#store = store
    this.#ownEngineId = ownEngineId
    this.#server = createServer({
      ...store.current.material,
      requestCert: true,
      rejectUnauthorized: false,
      // The side channel's own deadline is shorter; this one is for a broken clock.
      handshakeTimeout: 2 * sideChannelLimits.helloTimeoutMs,
    })
    this.#server.on('secureConnection', (socket) => {
      this.#accepting.get(placeOf(socket))?.(null, socket)
    })
    this.#server.on('tlsClientError', (error, socket) => {
      this.#accepting.get(placeOf(socket))?.(error, null)
    })
    store.onChange(({ material }) => this.#server.setSecureContext(material))
  }

  secure(attempt: SecureAttempt): void {
    if (attempt.side === 'called') this.#accept(attempt)
    else this.#call(attempt)
  }

  close(): void {
    this.#store.close()
  }

  #accept(attempt: SecureAttempt): void {
    const { socket } = attempt
    socket.on('error', () => {})
    const settle = this.#settler(attempt)
    socket.once('close', () => settle(null, null))
    socket.once('readable', () => {
      const first = socket.read() as Buffer | null
      if (first === null) return
      socket.unshift(first)
      if (first[0] !== tlsHandshakeRecord) {
        attempt.onSecured(socket, this.#plainPeer(attempt.peerName))
        return
      }
      const place = placeOf(socket)
      this.#accepting.set(place, settle)
      socket.once('close', () => this.#accepting.delete(place))
      this.#server.emit('connection', socket)
    })
  }

  #call(attempt: SecureAttempt): void {
    const settle = this.#settler(attempt)
    const socket = connect({
      socket: attempt.socket,
      secureContext: this.#store.current.context,
      rejectUnauthorized: false,
      // Names are engines', not hosts'; judgeCertificate reads them.
      checkServerIdentity: () => undefined,
    })
    socket.on('error', (error) => settle(error, null))
    socket.once('close', () => settle(null, null))
    socket.once('secureConnect', () => settle(null, socket))
  }

  /** The first of its calls counts; neither an error nor a socket: the connection is gone. */
  #settler(attempt: SecureAttempt): (error: Error | null, socket: TLSSocket | null) => void {
    let isSettled = false
    return (error, socket) => {
      if (isSettled) return
      isSettled = true
      if (socket === null) attempt.onFailed(this.#failure(attempt.peerName, error))
      else attempt.onSecured(socket, this.#judge(attempt.peerName, socket))
    }
  }

  #judge(peerName: string, socket: TLSSocket): EngineId | AnyConnectorError {
    return judgeCertificate(
      {
        certificate: socket.getPeerX509Certificate() ?? null,
        authorizationError: socket.authorized ? null : String(socket.authorizationError),
        isSessionReused: socket.isSessionReused(),
      },
      { ownEngineId: this.#ownEngineId, peerName },
    )
  }

  #failure(peerName: string, error: Error | null): AnyConnectorError {
    const { code = '' } = (error ?? {}) as NodeJS.ErrnoException
    if (error === null || !/^(ERR_SSL_|EPROTO)/.test(code)) {
      return peerUnavailable(peerName, 'hung up during the TLS handshake', error)
    }
    if (plainAnswer.test(code)) return this.#plainPeer(peerName)
    return incompatible(
      { peer: peerName, field: 'sideChannel.tls', local, remote: code },
      `engine "${this.#ownEngineId}" speaks ${local}, and the handshake with ${peerName} failed: ${code}`,
      error,
    )
  }

  #plainPeer(peerName: string): AnyConnectorError {
    return incompatible(
      { peer: peerName, field: 'sideChannel.tls', local, remote: 'plain TCP' },
      `engine "${this.#ownEngineId}" speaks ${local} and ${peerName} speaks plain TCP: ` +
        'set sideChannel.tls on both sides, or on neither',
    )
  }
}
