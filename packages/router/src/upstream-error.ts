/**
 * Turns what undici throws into a typed RouterError: who failed, whether the engine can have seen the
 * request, and which status the client gets. Pure; called by both legs.
 */
import { RouterError, type Leg } from './router-error.ts'

/** Failures of the connection itself: not a byte of the request has left. */
const beforeSend = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
])

function errorCode(error: unknown): string {
  const { code, cause, errors } = error as { code?: unknown; cause?: unknown; errors?: unknown }
  if (typeof code === 'string') return code
  // `localhost` resolves to several addresses: the codes are inside an AggregateError.
  if (Array.isArray(errors) && errors.length > 0) return errorCode(errors[0])
  return typeof cause === 'object' && cause !== null ? errorCode(cause) : ''
}

const isConnectFailure = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && beforeSend.has(errorCode(error))

/** "Not now", said before anything was done. */
export const isBusyStatus = (status: number): boolean => status === 429 || status === 503

export function upstreamError(leg: Leg, url: string, error: unknown): RouterError {
  if (error instanceof RouterError) return error
  const isBeforeSend = isConnectFailure(error)
  const reason = error instanceof Error ? error.message || errorCode(error) : String(error)
  const what = isBeforeSend ? 'is not reachable' : 'closed the connection'
  return new RouterError(
    {
      status: isBeforeSend ? 503 : 502,
      code: 'ERR_KV_PEER_UNAVAILABLE',
      outcome: isBeforeSend ? 'unavailable' : `${leg}-failed`,
      message: `${leg} engine ${url} ${what}: ${reason}`,
      isBeforeSend,
    },
    error,
  )
}

/** An engine's own error answer (status ≥ 500): its message and code stay, the status says it came from behind. */
export function upstreamStatusError(
  leg: Leg,
  url: string,
  status: number,
  body: string,
): RouterError {
  const { message, code } = readOpenAiError(body)
  return new RouterError({
    status: status === 503 || status === 504 ? status : 502,
    code: code ?? 'ERR_KV_PEER_UNAVAILABLE',
    outcome: `${leg}-failed`,
    message: `${leg} engine ${url} answered ${status}: ${message}`,
    isBusy: isBusyStatus(status),
  })
}

function readOpenAiError(body: string): { message: string; code: string | null } {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown; code?: unknown } }
    if (typeof error?.message === 'string') {
      const code = typeof error.code === 'string' && error.code.length <= 64 ? error.code : null
      return { message: error.message.slice(0, 1_000), code }
    }
  } catch {
    // Not ours: the text below has to do.
  }
  return { message: body.slice(0, 200) || 'no text', code: null }
}
