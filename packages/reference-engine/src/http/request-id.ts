/**
 * Names of a request: the caller's, the one in the answer, and the engine's own, which is unique although
 * a caller repeats itself.
 */
import { engineLimits } from '../limits.ts'
import { HttpError } from './http-error.ts'

export interface RequestNames {
  /** `<prefix>-<caller's id>`: the answer's `id`. */
  readonly publicId: string
  /** `<prefix>-<caller's id>-<8 hex>`. */
  readonly internalId: string
}

const pattern = new RegExp(`^[A-Za-z0-9._-]{1,${engineLimits.requestIdLengthMax}}$`)

/** @throws HttpError 400 for an `X-Request-Id` that is too long or has other characters. */
export function nameRequest(
  prefix: string,
  header: string | readonly string[] | undefined,
  randomHex: (byteCount: number) => string,
): RequestNames {
  const given = header === undefined || typeof header === 'string' ? header : header.join(',')
  if (given !== undefined && !pattern.test(given)) {
    const max = engineLimits.requestIdLengthMax
    const message = `x-request-id: use 1 to ${max} characters out of A-Z a-z 0-9 . _ -`
    throw new HttpError(400, 'ERR_KV_MESSAGE_INVALID', message)
  }
  const publicId = `${prefix}-${given ?? randomHex(16)}`
  return { publicId, internalId: `${publicId}-${randomHex(4)}` }
}
