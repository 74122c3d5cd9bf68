/**
 * Turns what the native half and the system report into the contract's errors, in one place. Pure:
 * decides codes and words, never policy. Which native status means what is measured, not guessed: the C
 * API folds nearly everything that can go wrong in the network into one status.
 */
import { ConnectorError, type AnyConnectorError } from '@kvferry/connector-api'

/** NIXL can't be used here; `remedy` is one sentence that an operator can act on. */
export function nixlUnavailable(
  message: string,
  remedy: string,
  options: { readonly searched?: readonly string[]; readonly cause?: unknown } = {},
): ConnectorError<'ERR_NIXL_UNAVAILABLE'> {
  return new ConnectorError(
    'ERR_NIXL_UNAVAILABLE',
    `${message}. ${remedy}`,
    { searched: options.searched ?? [], remedy },
    { cause: options.cause },
  )
}

/** The error as it is when it is one of ours already, else wrapped so that callers see one class. */
export function asConnectorError(error: unknown, operation: string): AnyConnectorError {
  if (ConnectorError.isInstance(error)) return error
  const status = error instanceof Error ? error.message : String(error)
  return new ConnectorError(
    'ERR_NIXL',
    `${operation} failed: ${status}`,
    { operation, status },
    { cause: error },
  )
}
