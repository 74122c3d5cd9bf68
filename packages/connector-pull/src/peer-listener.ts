/**
 * What the loads, leases and releases of a consumer know of its connections: their keys, the answer to a
 * wish for one, and the news of their ends. Implemented by consumer-worker.ts, called by peer-connections.ts.
 */
import type { AnyConnectorError, EngineId, Incarnation, PeerAddress } from '@kvferry/connector-api'
import { lifeKey, peerUnavailable } from '@kvferry/connector-api/protocol'
import type { ConnectionState, PeerLink } from './connection-state.ts'

/** One rank of one life of an engine at one address: a false address must not stand in for the right one. */
export type PeerKey = string

export const peerKey = (
  { engineId, host, port }: PeerAddress,
  incarnation: Incarnation,
  rank: number,
): PeerKey => lifeKey({ engineId, incarnation }, host, port, rank)

export interface PeerListener {
  onReady(key: PeerKey, link: PeerLink): void
  onFailed(key: PeerKey, error: AnyConnectorError): void
  /** The peer is gone from the agent; loads that wait for it start a new handshake. */
  onForgotten(key: PeerKey): void
  hasOpenReads(key: PeerKey): boolean
}

export type LinkAnswer =
  | { readonly kind: 'ready'; readonly key: PeerKey; readonly link: PeerLink }
  /** `PeerListener` tells the end. */
  | { readonly kind: 'waiting'; readonly key: PeerKey }
  | { readonly kind: 'unavailable'; readonly error: AnyConnectorError }

/** What a wish for a connection in that state is answered with. */
export function linkAnswer(key: PeerKey, state: ConnectionState, engineId: EngineId): LinkAnswer {
  switch (state.kind) {
    case 'ready':
    case 'wired':
      return { kind: 'ready', key, link: state.link }
    case 'abandoning':
    case 'draining':
      return { kind: 'unavailable', error: peerUnavailable(engineId) }
    case 'associating':
    case 'exchanging':
    case 'adding':
    case 'removing':
    case 'ended':
      return { kind: 'waiting', key }
  }
}
