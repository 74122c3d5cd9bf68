/**
 * One error class and a closed set of codes for operating errors. Codes never change within a major
 * version, messages may; never parse a message. A caller's mistake is a TypeError or RangeError without
 * a code; a broken invariant is an InvariantError (assert.ts). `docs/reference/errors.md` has one
 * heading per code.
 */
import type { EngineId, Incarnation, RequestId } from './ids.ts'
import type { ConnectorCapabilities } from './capabilities.ts'

export interface ConnectorErrorDetails {
  /** The object was closed, or is closing. */
  ERR_KV_CLOSED: { what: string }
  ERR_KV_BUSY: { what: string; transfers: number }
  ERR_KV_PEER_UNAVAILABLE: { peer: string }
  ERR_KV_PEER_INCOMPATIBLE: { peer: string; field: string; local: string; remote: string }
  ERR_KV_WRONG_EPOCH: { engineId: EngineId; expected: Incarnation; actual: Incarnation }
  ERR_KV_UNAUTHORISED: { reason: string }
  ERR_KV_HANDOFF_INVALID: { field: string; value: string }
  ERR_KV_LEASE_EXPIRED: { requestId: RequestId }
  ERR_KV_TRANSFER_FAILED: { operation: string; peer: string; status: string }
  /** No final status in time. The transfer may still touch memory (architecture §6). */
  ERR_KV_DEADLINE: { what: string; deadlineMs: number }
  ERR_KV_UNSUPPORTED: { capability: keyof ConnectorCapabilities | string }
  ERR_KV_LIMIT: { limit: string; value: number; max: number }
  ERR_KV_QUARANTINE_FULL: { blocks: number; max: number }
  ERR_KV_MESSAGE_INVALID: { where: string; reason: string }
  ERR_KV_CONFIG: { field: string; value: string; remedy: string }
  ERR_KV_CONNECTOR_NOT_INSTALLED: { connector: string; command: string }
  ERR_NIXL_UNAVAILABLE: { searched: readonly string[]; remedy: string }
  ERR_NIXL: { operation: string; status: string }
  ERR_CUDA_UNAVAILABLE: { reason: string; remedy: string }
  /** The CUDA driver refused. `status` is its own name for it. */
  ERR_CUDA: { operation: string; status: string }
}

export type ConnectorErrorCode = keyof ConnectorErrorDetails

/** Whether repeating the whole operation later may succeed without anyone changing anything. */
const retryable: Record<ConnectorErrorCode, boolean> = {
  ERR_KV_CLOSED: false,
  ERR_KV_BUSY: true,
  ERR_KV_PEER_UNAVAILABLE: true,
  ERR_KV_PEER_INCOMPATIBLE: false,
  ERR_KV_WRONG_EPOCH: false,
  ERR_KV_UNAUTHORISED: false,
  ERR_KV_HANDOFF_INVALID: false,
  ERR_KV_LEASE_EXPIRED: false,
  ERR_KV_TRANSFER_FAILED: true,
  ERR_KV_DEADLINE: true,
  ERR_KV_UNSUPPORTED: false,
  ERR_KV_LIMIT: true,
  ERR_KV_QUARANTINE_FULL: true,
  ERR_KV_MESSAGE_INVALID: false,
  ERR_KV_CONFIG: false,
  ERR_KV_CONNECTOR_NOT_INSTALLED: false,
  ERR_NIXL_UNAVAILABLE: false,
  ERR_NIXL: false,
  ERR_CUDA_UNAVAILABLE: false,
  ERR_CUDA: false,
}

export const connectorErrorCodes = Object.keys(retryable) as readonly ConnectorErrorCode[]

/** Survives two copies of this package in one process, where `instanceof` would not. */
const marker = Symbol.for('kvferry.ConnectorError')

export class ConnectorError<C extends ConnectorErrorCode = ConnectorErrorCode> extends Error {
  override readonly name = 'ConnectorError'
  readonly code: C
  readonly details: ConnectorErrorDetails[C]
  readonly isRetryable: boolean

  constructor(
    code: C,
    message: string,
    details: ConnectorErrorDetails[C],
    options?: { readonly cause?: unknown },
  ) {
    super(message, options)
    this.code = code
    this.details = details
    this.isRetryable = retryable[code]
    Object.defineProperty(this, marker, { value: true })
  }

  static isInstance(error: unknown): error is AnyConnectorError {
    return typeof error === 'object' && error !== null && marker in error
  }
}

/** Distributes over the codes, so that `switch (error.code)` narrows `details`. */
export type AnyConnectorError = {
  [C in ConnectorErrorCode]: ConnectorError<C>
}[ConnectorErrorCode]
