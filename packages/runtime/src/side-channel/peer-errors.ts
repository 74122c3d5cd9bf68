/**
 * The typed errors with which the side channel speaks of a peer, in one place, so that each of them names
 * both sides. Pure; used by everything between the socket and the association.
 */
import { ConnectorError, type AnyConnectorError } from '@kvferry/connector-api'

export function peerUnavailable(
  peer: string,
  why: string,
  cause?: unknown,
): ConnectorError<'ERR_KV_PEER_UNAVAILABLE'> {
  const options = cause === undefined || cause === null ? {} : { cause }
  const { code } = (cause ?? {}) as NodeJS.ErrnoException
  // The system's own word (ECONNREFUSED, ETIMEDOUT) is what an operator looks for.
  const reason = code === undefined || ConnectorError.isInstance(cause) ? why : `${why} (${code})`
  return new ConnectorError(
    'ERR_KV_PEER_UNAVAILABLE',
    `engine ${peer}: ${reason}`,
    { peer },
    options,
  )
}

export const closedError = (): ConnectorError<'ERR_KV_CLOSED'> =>
  new ConnectorError('ERR_KV_CLOSED', 'the side channel is closed', { what: 'side channel' })

/** Both sides must agree on `field`, and don't. */
export function incompatible(
  details: {
    readonly peer: string
    readonly field: string
    readonly local: string
    readonly remote: string
  },
  message: string,
  cause?: unknown,
): AnyConnectorError {
  const options = cause === undefined ? {} : { cause }
  return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, details, options)
}

export function unauthorised(reason: string): AnyConnectorError {
  return new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason })
}

export function noAnswer(what: string, deadlineMs: number): AnyConnectorError {
  const message = `no ${what} within ${deadlineMs} ms`
  return new ConnectorError('ERR_KV_DEADLINE', message, { what, deadlineMs })
}
