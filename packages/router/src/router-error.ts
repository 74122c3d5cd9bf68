/**
 * What a client is told when a request cannot be served: an HTTP status, OpenAI's error object and a
 * code that never changes. Thrown by every part of the router, turned into an answer or an SSE event in
 * one place each. Codes are those of connector-api where one fits, or the engine's own, passed through.
 */
export type Leg = 'prefill' | 'decode'

/** Why a request ended, as counted in the metrics. `ok` and `client-error` are answered by an engine or by validation. */
export type Outcome =
  | 'ok'
  | 'client-error'
  | 'client-gone'
  | 'unavailable'
  | 'prefill-failed'
  | 'decode-failed'
  | 'truncated'
  | 'deadline'
  | 'draining'
  | 'internal'

export interface OpenAiErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly code: string | null }
}

export class RouterError extends Error {
  override readonly name = 'RouterError'
  readonly status: number
  readonly code: string
  readonly outcome: Outcome
  /** True when the engine certainly never saw the request, so that another one may be asked. */
  readonly isBeforeSend: boolean
  /** True when the engine said that it takes nothing now. */
  readonly isBusy: boolean
  /** True when it only ends a leg whose counterpart has failed: that failure was counted. */
  readonly isConsequence: boolean

  constructor(
    options: {
      readonly status: number
      readonly code: string
      readonly outcome: Outcome
      readonly message: string
      readonly isBeforeSend?: boolean
      readonly isBusy?: boolean
      readonly isConsequence?: boolean
    },
    cause?: unknown,
  ) {
    super(options.message, cause === undefined ? undefined : { cause })
    this.status = options.status
    this.code = options.code
    this.outcome = options.outcome
    this.isBeforeSend = options.isBeforeSend ?? false
    this.isBusy = options.isBusy ?? false
    this.isConsequence = options.isConsequence ?? false
  }

  get body(): OpenAiErrorBody {
    return errorBody(this.status, this.message, this.code)
  }
}

export function errorBody(status: number, message: string, code: string | null): OpenAiErrorBody {
  const type =
    status === 429 ? 'rate_limit_error' : status < 500 ? 'invalid_request_error' : 'server_error'
  return { error: { message, type, code } }
}

/** A request that the client has to change. */
export function badRequest(message: string, code = 'ERR_KV_MESSAGE_INVALID', status = 400) {
  return new RouterError({ status, code, outcome: 'client-error', message })
}

/** P's answer cannot be used. */
export function handoffRefused(message: string): RouterError {
  return new RouterError({
    status: 502,
    code: 'ERR_KV_HANDOFF_INVALID',
    outcome: 'prefill-failed',
    message: `prefill engine: ${message}`,
  })
}

/** Nobody hears this one: it only stops the work and is counted. 499 as in nginx. */
export function clientGone(): RouterError {
  return new RouterError({
    status: 499,
    code: 'ERR_KV_CLOSED',
    outcome: 'client-gone',
    message: 'the client closed the connection',
  })
}

export function deadlineReached(what: string, deadlineMs: number): RouterError {
  return new RouterError({
    status: 504,
    code: 'ERR_KV_DEADLINE',
    outcome: 'deadline',
    message: `${what}: nothing within ${deadlineMs} ms`,
  })
}

export function draining(): RouterError {
  return new RouterError({
    status: 503,
    code: 'ERR_KV_CLOSED',
    outcome: 'draining',
    message: 'the router is shutting down',
  })
}

/** Ends a leg that is of no use any more, because the other one gave up. Nobody hears it. */
export function otherLegEnded(leg: Leg): RouterError {
  return new RouterError({
    status: 502,
    code: 'ERR_KV_CLOSED',
    outcome: `${leg}-failed`,
    message: `the ${leg} leg has ended`,
    isConsequence: true,
  })
}
