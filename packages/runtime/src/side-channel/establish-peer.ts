/**
 * From a connected socket to an admitted peer, for either side: TLS if the channel has certificates, the
 * judgement of the peer's certificate, then the hello exchange, all within one deadline. Ends in exactly
 * one of `onOpen` and `onFailed`. Used by dial.ts and by the listening side channel.
 */
import type { Socket } from 'node:net'
import {
  ConnectorError,
  type AnyConnectorError,
  type Clock,
  type EngineId,
  type PeerIdentity,
} from '@kvferry/connector-api'
import { Connection } from './connection.ts'
import type { AdmissionPolicy } from './hello.ts'
import { exchangeHellos, type HelloSide } from './hello-exchange.ts'
import { noAnswer } from './peer-errors.ts'
import { farewell } from './refusal.ts'
import type { CertificateVerdict, Transport } from './transport.ts'

/** Where a peer was turned away: what `kv_messages_refused_total` calls it. */
export type RefusalPlace = 'side-channel-tls' | 'side-channel-certificate' | 'side-channel-hello'

export interface PeerFailure {
  readonly error: AnyConnectorError
  /** Where we refused, or null: the peer did, or hung up. */
  readonly refusedAt: RefusalPlace | null
}

export interface PeerEstablishment {
  readonly socket: Socket
  readonly transport: Transport
  readonly policy: AdmissionPolicy
  /** Name of the peer in errors. */
  readonly peerName: string
  readonly side: HelloSide
  readonly clock: Clock
  readonly timeoutMs: number
  /** From inside the event of the peer's hello: frames right behind it must meet their listener. */
  onOpen(connection: Connection, peer: PeerIdentity): void
  onFailed(failure: PeerFailure): void
}

export function establishPeer(establishment: PeerEstablishment): void {
  const { socket, transport, peerName, side, clock, timeoutMs } = establishment
  const startedAt = clock.now()
  let isLate = false
  const timer = clock.after(timeoutMs, () => {
    isLate = true
    socket.destroy()
    const error = noAnswer(`TLS handshake of ${peerName}`, timeoutMs)
    establishment.onFailed({ error, refusedAt: 'side-channel-tls' })
  })
  transport.secure({
    socket,
    side: side.kind,
    peerName,
    onSecured(secured, verdict) {
      timer.stop()
      if (isLate) return
      const remainingMs = Math.max(0, timeoutMs - (clock.now() - startedAt))
      greet(establishment, new Connection(secured, clock), verdict, remainingMs)
    },
    onFailed(error) {
      timer.stop()
      if (isLate) return
      socket.destroy()
      const isGone = error.code === 'ERR_KV_PEER_UNAVAILABLE'
      establishment.onFailed({ error, refusedAt: isGone ? null : 'side-channel-tls' })
    },
  })
}

function greet(
  establishment: PeerEstablishment,
  connection: Connection,
  verdict: CertificateVerdict,
  timeoutMs: number,
): void {
  if (ConnectorError.isInstance(verdict)) {
    connection.leave(farewell(verdict))
    const refusedAt =
      verdict.code === 'ERR_KV_UNAUTHORISED' ? 'side-channel-certificate' : 'side-channel-tls'
    establishment.onFailed({ error: verdict, refusedAt })
    return
  }
  const certified: EngineId | null = verdict
  exchangeHellos({
    connection,
    certified,
    policy: establishment.policy,
    peerName: establishment.peerName,
    side: establishment.side,
    clock: establishment.clock,
    timeoutMs,
    onOpen: (peer) => establishment.onOpen(connection, peer),
    onFailed: (error, isOurs) => {
      establishment.onFailed({ error, refusedAt: isOurs ? 'side-channel-hello' : null })
    },
  })
}
