/**
 * Calls a peer: TCP connection, then the hello exchange, within one deadline. Used by the side channel
 * and by `kvferry ping`. Resolves from inside the event of the peer's hello (see hello-exchange.ts), so
 * the caller builds what listens on the connection in `onOpen`, not after the promise.
 */
import { connect } from 'node:net'
import {
  ConnectorError,
  type AnyConnectorError,
  type Clock,
  type EngineId,
  type PeerIdentity,
} from '@kvferry/connector-api'
import { isLoopbackHost } from '../loopback.ts'
import { closedError, Connection, peerUnavailable } from './connection.ts'
import type { AdmissionPolicy } from './hello.ts'
import { exchangeHellos } from './hello-exchange.ts'

export interface DialOptions<T> {
  readonly host: string
  readonly port: number
  /** Null = whoever answers there. */
  readonly engineId: EngineId | null
  readonly policy: AdmissionPolicy
  readonly clock: Clock
  readonly timeoutMs: number
  /** Aborted when the side channel closes. */
  readonly signal?: AbortSignal
  /** TCP is up; the connection will end by itself or be handed to `onOpen`. */
  onConnection?(connection: Connection): void
  onOpen(connection: Connection, peer: PeerIdentity): T
  /** Our side refused the one that answered. */
  onRefused?(error: AnyConnectorError): void
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
    const connectTimer = clock.after(timeoutMs, () => {
      const what = `connection to engine ${peerName}`
      const message = `no ${what} within ${timeoutMs} ms`
      give(new ConnectorError('ERR_KV_DEADLINE', message, { what, deadlineMs: timeoutMs }))
    })

    signal?.addEventListener('abort', onAbort)
    socket.on('error', onConnectError)
    socket.once('connect', () => {
      connectTimer.stop()
      const connection = new Connection(socket, clock)
      socket.off('error', onConnectError)
      options.onConnection?.(connection)
      if (policy.isLoopbackOnly && !isLoopbackHost(connection.remoteHost)) {
        // "localhost" went through a resolver, which may say anything.
        const reason = `${host} leads to ${connection.remoteHost}, which is not on this machine`
        return give(new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason }))
      }
      exchangeHellos({
        connection,
        policy,
        peerName,
        side: { kind: 'caller', expected: options.engineId },
        clock,
        timeoutMs: Math.max(0, timeoutMs - (clock.now() - startedAt)),
        onOpen(peer) {
          signal?.removeEventListener('abort', onAbort)
          resolve(options.onOpen(connection, peer))
        },
        onFailed(error, isOurs) {
          if (isOurs) options.onRefused?.(error)
          fail(explain(error, peerName))
        },
      })
    })
  })
}

/** What answered doesn't speak our protocol: for the caller that is a wrong peer, not a bad message. */
function explain(error: AnyConnectorError, peerName: string): AnyConnectorError {
  if (error.code !== 'ERR_KV_MESSAGE_INVALID') return error
  return new ConnectorError(
    'ERR_KV_PEER_INCOMPATIBLE',
    `what answers as engine ${peerName} doesn't speak this protocol: ${error.message}`,
    {
      peer: peerName,
      field: 'protocol',
      local: 'kvferry side channel',
      remote: error.details.reason,
    },
    { cause: error },
  )
}
