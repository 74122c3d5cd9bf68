/**
 * What the loads, leases and releases of a consumer know of its connections: their keys, the answer to a
 * wish for one, and the news of their ends. Implemented by consumer-worker.ts, called by peer-connections.ts.
 */
import type { AnyConnectorError, Incarnation, PeerAddress } from '@kvferry/connector-api'
import { lifeKey } from '@kvferry/connector-api/protocol'
import type { PeerLink } from './connection-state.ts'

/** One life of one engine at one address: a false address must not stand in for the right one. */
export type PeerKey = string

export const peerKey = ({ engineId, host, port }: PeerAddress, incarnation: Incarnation): PeerKey =>
  lifeKey({ engineId, incarnation }, host, port)

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
