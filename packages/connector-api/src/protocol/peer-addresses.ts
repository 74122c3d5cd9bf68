/**
 * Where a producer is reached. With configured peers only their addresses are ever called, whatever a
 * handoff says; without, the handoff's, which the side channel keeps to loopback. Pure.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type EngineId,
  type PeerAddress,
  type PeerConfig,
} from '../index.ts'

/** Where params say that a producer is. */
export interface NamedPlace {
  readonly engineId: EngineId
  readonly host: string
  readonly port: number
}

export type PeerLookup =
  | { readonly kind: 'known'; readonly address: PeerAddress }
  | { readonly kind: 'stranger'; readonly error: AnyConnectorError }

export function addressOf(
  { engineId, host, port }: NamedPlace,
  peers: readonly PeerConfig[] | null,
): PeerLookup {
  if (peers === null) return { kind: 'known', address: { engineId, host, port } }
  const peer = peers.find((candidate) => candidate.engineId === engineId)
  if (peer !== undefined) {
    return { kind: 'known', address: { engineId, host: peer.host, port: peer.port } }
  }
  const reason = `${engineId} is not one of the configured peers`
  return { kind: 'stranger', error: new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason }) }
}
