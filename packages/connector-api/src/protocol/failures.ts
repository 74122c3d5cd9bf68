/**
 * Turns whatever a port threw into one of our typed errors, so that a failed load always has a code.
 * A broken invariant passes through: it must end the process, not one request.
 */
import {
  ConnectorError,
  InvariantError,
  isUnhandledKind,
  type AnyConnectorError,
} from '../index.ts'

/** @throws InvariantError when `cause` is one. */
export function asConnectorError(
  cause: unknown,
  context: { readonly operation: string; readonly peer: string },
): AnyConnectorError {
  if (cause instanceof InvariantError) throw cause
  if (ConnectorError.isInstance(cause)) return cause
  const status = cause instanceof Error ? cause.message : String(cause)
  return new ConnectorError(
    'ERR_KV_TRANSFER_FAILED',
    `${context.operation} with ${context.peer} failed: ${status}`,
    { ...context, status },
    { cause },
  )
}

export function unsupported(capability: string, message: string): AnyConnectorError {
  return new ConnectorError('ERR_KV_UNSUPPORTED', message, { capability })
}

export function limitExceeded(limit: string, value: number, max: number): AnyConnectorError {
  return new ConnectorError('ERR_KV_LIMIT', `${limit}: ${value} exceeds ${max}`, {
    limit,
    value,
    max,
  })
}

/**
 * Why a handshake of this kind failed: whoever has never heard of the kind runs another connector. `cause`
 * itself where that is not it.
 */
export function otherConnector(
  cause: unknown,
  kind: string,
  { connector, peer }: { readonly connector: string; readonly peer: string },
): unknown {
  if (!isUnhandledKind(cause, kind)) return cause
  const mismatch = { field: 'connector', local: connector, remote: 'another' }
  const message = `connector is ${connector} here and another on ${peer}`
  return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, { peer, ...mismatch }, { cause })
}

export function closed(what: string): AnyConnectorError {
  return new ConnectorError('ERR_KV_CLOSED', `${what} is closed`, { what })
}

export function peerUnavailable(peer: string): AnyConnectorError {
  return new ConnectorError('ERR_KV_PEER_UNAVAILABLE', `no association with ${peer}`, { peer })
}
