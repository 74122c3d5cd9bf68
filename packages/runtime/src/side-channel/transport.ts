/**
 * What lies between a TCP connection and the frames on it: nothing, or mutual TLS. Chosen once per side
 * channel by its configuration; there is no negotiation, so nobody can talk one side out of TLS.
 */
import type { Socket } from 'node:net'
import type { AnyConnectorError, EngineId } from '@kvferry/connector-api'

/** Of a peer without certificates its name is only known from its hello. */
export type CertificateVerdict = EngineId | AnyConnectorError | null

export interface SecureAttempt {
  /** Connected, and not read from. */
  readonly socket: Socket
  readonly side: 'caller' | 'called'
  /** The peer in errors. */
  readonly peerName: string
  /**
   * Frames may flow on this socket. The verdict is on the certificate: whom it names, or why the peer is
   * refused, which it should be told before the end.
   */
  onSecured(socket: Socket, verdict: CertificateVerdict): void
  /** Nothing can be said on this connection; the socket is gone or going. */
  onFailed(error: AnyConnectorError): void
}

export interface Transport {
  readonly kind: 'plain' | 'tls'
  /** Calls one of the attempt's two functions, once. Has no deadline of its own: destroy the socket. */
  secure(attempt: SecureAttempt): void
  /** Releases what the transport itself holds; connections are not its own. */
  close(): void
}

export const plainTransport: Transport = {
  kind: 'plain',
  secure: ({ socket, onSecured }) => onSecured(socket, null),
  close() {},
}
