/**
 * The control channel between engines: a connection that either side opened and that both use (the
 * *association*); where both dial, there are two. Who the peer is comes from the association and never
 * from a message. Everything but bytes of KV and
 * "this transfer is complete" goes over it. `runtime` implements it over TCP; bodies are opaque here.
 */
import { ConnectorError } from './errors.ts'
import type { AnyConnectorError } from './errors.ts'
import type { EngineId, Incarnation } from './ids.ts'

export interface PeerIdentity {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
}

export interface PeerAddress {
  readonly host: string
  readonly port: number
  /** Refused when another engine answers. */
  readonly engineId: EngineId
}

export interface Association {
  readonly peer: PeerIdentity
  readonly isOpen: boolean
  /**
   * @throws ConnectorError ERR_KV_DEADLINE, ERR_KV_PEER_UNAVAILABLE (closed meanwhile), ERR_KV_LIMIT,
   *   or the typed error with which the peer refused.
   */
  request(kind: string, body: Uint8Array, options?: { timeoutMs?: number }): Promise<Uint8Array>
  /** Fire and forget: ordered, lost when the association closes. */
  send(kind: string, body: Uint8Array): void
  /**
   * Gives the system what was written in this turn now, not at its end. For what others wait for longest: each call
   * may cost a system call. Calls nobody back, and throws for nothing: what comes of it is heard later.
   */
  flush(): void
  close(): void
}

/** Answers one kind of request. A thrown ConnectorError travels to the caller with its code. */
export type SideChannelHandler = (
  body: Uint8Array,
  from: Association,
) => Uint8Array | Promise<Uint8Array>

export interface SideChannel {
  /** Where peers reach this engine. */
  readonly address: { readonly host: string; readonly port: number }
  readonly identity: PeerIdentity
  /** One handler per kind; a second registration throws TypeError. Others are refused with `unhandledKind`. */
  handle(kind: string, handler: SideChannelHandler): void
  /**
   * An open association to that engine: the existing one, or a new one.
   * @throws ConnectorError ERR_KV_PEER_UNAVAILABLE, ERR_KV_PEER_INCOMPATIBLE (another engine answered),
   *   ERR_KV_UNAUTHORISED, ERR_KV_DEADLINE, ERR_KV_LIMIT, ERR_KV_CLOSED; RangeError for a port.
   */
  connect(address: PeerAddress, options?: { timeoutMs?: number }): Promise<Association>
  /** Called once for each association that ended, whoever opened it. */
  onAssociationEnd(listener: (association: Association) => void): void
  close(): Promise<void>
}

const noHandler = (kind: string): string => `no handler for ${kind}`

/** How a side channel refuses a message of a kind that nobody handles there. */
export function unhandledKind(kind: string): AnyConnectorError {
  const message = `messages of kind ${kind} are not handled here`
  const details = { where: 'side-channel-message', reason: noHandler(kind) }
  return new ConnectorError('ERR_KV_MESSAGE_INVALID', message, details)
}

/** Whether a peer refused so: engines of other connectors hear none of this one's kinds. */
export const isUnhandledKind = (error: unknown, kind: string): boolean =>
  ConnectorError.isInstance(error) &&
  error.code === 'ERR_KV_MESSAGE_INVALID' &&
  error.details.reason === noHandler(kind)
