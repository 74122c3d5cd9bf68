/**
 * Calls a peer: TCP connection, TLS where the channel has certificates, then the hello exchange, within one
 * deadline. Used by the side channel and by `kvferry ping`. Resolves from inside the event of the peer's
 * hello (see hello-exchange.ts), so the caller builds what listens on the connection in `onOpen`, not
 * after the promise.
 */
import { connect, type Socket } from 'node:net'
import type { AnyConnectorError, Clock, EngineId, PeerIdentity } from '@kvferry/connector-api'
import { isLoopbackHost } from '../loopback.ts'
import type { Connection } from './connection.ts'
import { establishPeer, type RefusalPlace } from './establish-peer.ts'
import type { AdmissionPolicy } from './hello.ts'
import {
  closedError,
  incompatible,
  noAnswer,
  peerUnavailable,
  unauthorised,
} from './peer-errors.ts'
import type { Transport } from './transport.ts'

export interface DialOptions<T> {
  readonly host: string
  readonly port: number
  /** Null = whoever answers there. */
  readonly engineId: EngineId | null
  readonly policy: AdmissionPolicy
  readonly transport: Transport
  readonly clock: Clock
  readonly timeoutMs: number
  /** Aborted when the side channel closes. */
  readonly signal?: AbortSignal
  /** TCP is up; the socket ends by itself, or with what is handed to `onOpen`. */
  onConnected?(socket: Socket): void
  onOpen(connection: Connection, peer: PeerIdentity): T
  /** Our side refused the one that answered. */
  onRefused?(place: RefusalPlace): void
}

/**
 * @throws ConnectorError ERR_KV_PEER_UNAVAILABLE, ERR_KV_PEER_INCOMPATIBLE, ERR_KV_UNAUTHORISED,
 *   ERR_KV_DEADLINE, ERR_KV_CLOSED (aborted), or what the peer refused with.
 */
export function dial<T>(options: DialOptions<T>): Promise<T> {
  const { host, port, policy, clock, timeoutMs, signal } = options
  const place = `${host}:${port}`
  const peerName = options.engineId === null ? place : `${options.engineId} at ${place}`
  const startedAt = clock.now()

  return new Promise<T>((resolve, reject) => {
    const socket = connect({ host, port })
    const fail = (error: AnyConnectorError): void => {
      connectTimer.stop()
      signal?.removeEventListener('abort', onAbort)
      reject(error)
    }
    const give = (error: AnyConnectorError): void => {
      socket.destroy()
      fail(error)
    }
    const onAbort = (): void => give(closedError())
    const onConnectError = (error: Error): void =>
      give(peerUnavailable(peerName, 'connection failed', error))
    const connectTimer = clock.after(timeoutMs, () =>
      give(noAnswer(`connection to engine ${peerName}`, timeoutMs)),
    )

    signal?.addEventListener('abort', onAbort)
    socket.on('error', onConnectError)
    socket.once('connect', () => {
      connectTimer.stop()
      options.onConnected?.(socket)
      const remoteHost = socket.remoteAddress ?? ''
      if (policy.isLoopbackOnly && !isLoopbackHost(remoteHost)) {
        // "localhost" went through a resolver, which may say anything.
        return give(unauthorised(`${host} leads to ${remoteHost}, which is not on this machine`))
      }
      establishPeer({
        socket,
        transport: options.transport,
        policy,
        peerName,
        side: { kind: 'caller', expected: options.engineId },
        clock,
        timeoutMs: Math.max(0, timeoutMs - (clock.now() - startedAt)),
        onOpen(connection, peer) {
          signal?.removeEventListener('abort', onAbort)
          resolve(options.onOpen(connection, peer))
        },
        onFailed({ error, refusedAt }) {
          if (refusedAt !== null) options.onRefused?.(refusedAt)
          fail(explain(error, peerName))
        },
      })
      // From here on what ends the socket is the connection's, or TLS's, to report.
      socket.off('error', onConnectError)
      socket.on('error', () => {})
    })
  })
}

/** What answered doesn't speak our protocol: for the caller that is a wrong peer, not a bad message. */
function explain(error: AnyConnectorError, peerName: string): AnyConnectorError {
  if (error.code !== 'ERR_KV_MESSAGE_INVALID') return error
  const { reason } = error.details
  return incompatible(
    { peer: peerName, field: 'protocol', local: 'kvferry side channel', remote: reason },
    `what answers as engine ${peerName} doesn't speak this protocol: ${error.message}`,
    error,
  )
}
