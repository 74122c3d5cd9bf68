/**
 * Errors as HTTP answers, in OpenAI's shape with our codes. One table decides the status, so that the same
 * failure looks the same everywhere.
 */
import type { ConnectorErrorCode } from '@kvferry/connector-api'
import { bodyRefusal } from '@kvferry/runtime'
import { engineLimits } from '../limits.ts'

export type HttpErrorCode = ConnectorErrorCode | 'not_found' | 'model_not_found' | 'internal_error'

export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly status: number
  readonly code: HttpErrorCode

  constructor(status: number, code: HttpErrorCode, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

function typeOf(status: number): string {
  if (status === 429) return 'rate_limit_error'
  if (status === 404) return 'not_found_error'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

/** OpenAI's error object. */
export function describeError({ status, code, message }: HttpError): {
  readonly error: { readonly message: string; readonly type: string; readonly code: string }
} {
  return { error: { message, type: typeOf(status), code } }
}

/** A request that ended with an error of the core. */
export function fromCoreError(error: {
  readonly code: ConnectorErrorCode
  readonly message: string
}): HttpError {
  return new HttpError(error.code === 'ERR_KV_CLOSED' ? 503 : 500, error.code, error.message)
}

/** Whatever a handler or fastify threw. Unknown errors keep their text to themselves. */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  const refusal = bodyRefusal(error, engineLimits.bodySizeBytesMax)
  if (refusal !== null) return new HttpError(refusal.status, refusal.code, refusal.message)
  const { statusCode } = error as { statusCode?: unknown }
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    const message = error instanceof Error ? error.message : 'malformed request'
    return new HttpError(statusCode, 'ERR_KV_MESSAGE_INVALID', message)
  }
  return new HttpError(500, 'internal_error', 'the engine failed to handle the request')
}
