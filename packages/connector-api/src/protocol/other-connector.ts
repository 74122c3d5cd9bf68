/**
 * A peer that runs another connector has no handler for this one's handshake: its side channel refuses the message
 * before anybody compares facts. Used by whoever asks for a handshake, so that the operator reads what differs.
 */
import { ConnectorError } from '../index.ts'

/** `cause`: what the request was refused with; given back as it is unless nobody at the peer reads such messages. */
export function asOtherConnector(
  cause: unknown,
  { connector, engineId }: { readonly connector: string; readonly engineId: string },
): unknown {
  if (!ConnectorError.isInstance(cause) || cause.code !== 'ERR_KV_MESSAGE_INVALID') return cause
  if (cause.details.where !== 'side-channel-message') return cause
  const message = `connector is ${connector} here and another on ${engineId}, which answers no handshake of it`
  const mismatch = { field: 'connector', local: connector, remote: 'another' }
  const details = { peer: engineId, ...mismatch }
  return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, details, { cause })
}
