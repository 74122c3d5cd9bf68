/**
 * Turns what the native half and the system report into the contract's errors, in one place. Pure:
 * decides codes and words, never policy. Which native status means what is measured, not guessed: the C
 * API folds nearly everything that can go wrong in the network into one status.
 */
import { ConnectorError, InvariantError, type AnyConnectorError } from '@kvferry/connector-api'
import type { NativeFailure } from './binding.ts'

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

/** No driver, or none that can be used. */
export function cudaUnavailable(reason: string): ConnectorError<'ERR_CUDA_UNAVAILABLE'> {
  const remedy =
    'Install the NVIDIA driver (libcuda.so.1 comes with it), let the process see a GPU (CUDA_VISIBLE_DEVICES, the container’s devices), or use host memory'
  return new ConnectorError('ERR_CUDA_UNAVAILABLE', `CUDA can't be used: ${reason}. ${remedy}`, {
    reason,
    remedy,
  })
}

export interface FailureContext {
  /** What was asked for, in the words of the port: `addPeer`, `post`. */
  readonly operation: string
  /** Whom it concerns, where it concerns somebody. */
  readonly peer?: string
}

/** The error for a native failure: a RangeError for the caller's mistakes, else one of the contract's. */
export function failureError(failure: NativeFailure, context: FailureContext): Error {
  switch (failure.status) {
    case 'outOfRange':
    case 'invalidHandle':
      return new RangeError(describe(failure, context))
    case 'limit':
    case 'closed':
    case 'busy':
    case 'messageInvalid':
    case 'peerMismatch':
    case 'deadline':
    case 'nixl':
    case 'unavailable':
    case 'unsupported':
    case 'cuda':
    case 'cudaUnavailable':
    case 'broken':
      return operatingError(failure, context)
    default:
      return new InvariantError(`unknown native status: ${String(failure.status)}`)
  }
}

/** As `failureError`, for outcomes that the caller can't be blamed for. */
export function operatingError(failure: NativeFailure, context: FailureContext): AnyConnectorError {
  const message = describe(failure, context)
  const peer = context.peer ?? ''
  switch (failure.status) {
    case 'limit': {
      const { limit, value, max } = failure
      return new ConnectorError('ERR_KV_LIMIT', `${message}: ${limit} is ${max}, not ${value}`, {
        limit,
        value,
        max,
      })
    }
    case 'closed':
      return new ConnectorError('ERR_KV_CLOSED', message, { what: context.operation })
    case 'busy':
      return new ConnectorError('ERR_KV_BUSY', message, {
        what: context.operation,
        transfers: failure.value,
      })
    case 'messageInvalid':
      return new ConnectorError('ERR_KV_MESSAGE_INVALID', message, {
        where: context.operation,
        reason: failure.detail,
      })
    case 'peerMismatch':
      return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, {
        peer,
        field: 'name',
        local: peer,
        remote: failure.detail,
      })
    case 'deadline':
      return new ConnectorError('ERR_KV_DEADLINE', message, {
        what: context.operation,
        deadlineMs: failure.value,
      })
    case 'unavailable':
      return nixlUnavailable(
        `NIXL can't be used: ${failure.detail}`,
        failure.operation === 'plugin'
          ? 'Install the library that is missing, or leave the plugin out of "nixl.backends"; "npx kvferry-nixl install" keeps only what UCX needs, so for other plugins name a whole NIXL in KVFERRY_NIXL_LIBRARY'
          : 'Run "npx kvferry-nixl doctor" to see what is missing, or "npx kvferry-nixl install" to fetch it',
      )
    case 'unsupported':
      return new ConnectorError('ERR_KV_UNSUPPORTED', message, { capability: failure.operation })
    case 'cuda':
      return new ConnectorError('ERR_CUDA', message, {
        operation: failure.operation,
        status: failure.detail,
      })
    case 'cudaUnavailable':
      return cudaUnavailable(failure.detail)
    case 'nixl':
    case 'broken':
    case 'outOfRange':
    case 'invalidHandle':
      return new ConnectorError('ERR_NIXL', message, {
        operation: failure.operation,
        status: statusOf(failure),
      })
  }
}

/** The error of a transfer that ended failed or went past its deadline. */
export function transferError(failure: NativeFailure, peer: string): AnyConnectorError {
  if (failure.status !== 'nixl') return operatingError(failure, { operation: 'transfer', peer })
  const status = statusOf(failure)
  return new ConnectorError(
    'ERR_KV_TRANSFER_FAILED',
    `transfer with ${peer} failed in ${failure.operation}: ${status}`,
    { operation: failure.operation, peer, status },
  )
}

/** Awaits what a native function promised; its failure is thrown as the contract's error. */
export async function awaitNative<T>(context: FailureContext, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    const { failure } = error as { failure?: NativeFailure }
    throw failure === undefined ? error : failureError(failure, context)
  }
}

/** Runs a native function; its failure is thrown as the contract's error. */
export function callNative<T>(context: FailureContext, run: () => T): T {
  try {
    return run()
  } catch (error) {
    const { failure } = error as { failure?: NativeFailure }
    throw failure === undefined ? error : failureError(failure, context)
  }
}

/** The error as it is when it is one of ours already, else wrapped so that callers see one class. */
export function asConnectorError(error: unknown, operation: string): AnyConnectorError {
  if (ConnectorError.isInstance(error)) return error
  const status = error instanceof Error ? error.message : String(error)
  const message = `${operation} failed: ${status}`
  return new ConnectorError('ERR_NIXL', message, { operation, status }, { cause: error })
}

function statusOf(failure: NativeFailure): string {
  return failure.status === 'nixl' ? failure.nixl : failure.status.toUpperCase()
}

function describe(failure: NativeFailure, context: FailureContext): string {
  const reason =
    failure.status === 'nixl'
      ? `${failure.operation} answered ${failure.nixl}${failure.detail ? ` (${failure.detail})` : ''}`
      : failure.detail || readable[failure.status]
  return `${context.operation}${context.peer ? ` ${context.peer}` : ''}: ${reason}`
}

const readable: Readonly<Record<NativeFailure['status'], string>> = {
  outOfRange: 'out of range',
  invalidHandle: 'stale or foreign handle',
  limit: 'over a limit',
  closed: 'closed',
  busy: 'in use',
  messageInvalid: 'malformed message',
  peerMismatch: 'another peer answered',
  deadline: 'no final status by the deadline',
  nixl: 'the library failed',
  unsupported: 'not supported',
  cuda: 'the CUDA driver failed',
  cudaUnavailable: 'CUDA is not available',
  unavailable: 'NIXL is not available',
  broken: 'the agent has failed before',
}
