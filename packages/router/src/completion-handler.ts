/**
 * One completion request from HTTP to HTTP: validates, opens the scope, dispatches, writes what comes
 * back, and turns any failure into an answer, or, once bytes are out, into a final SSE error event.
 * Counts each request exactly once. Called by server.ts; knows no engine.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock, Logger, Random } from '@kvferry/connector-api'
import { ClientAnswer } from './client-answer.ts'
import {
  parseCompletionRequest,
  type CompletionPath,
  type CompletionRequest,
} from './completion-request.ts'
import type { Dispatcher, RoutedAnswer } from './dispatch.ts'
import { errorEvent } from './event-cutter.ts'
import type { Fleet } from './fleet.ts'
import { routerLimits, type Deadlines } from './limits.ts'
import { HandoffReleases } from './release-handoff.ts'
import { chooseRequestId } from './request-id.ts'
import { RequestScope } from './request-scope.ts'
import { draining, RouterError, type Outcome } from './router-error.ts'
import type { RouterMetrics } from './router-metrics.ts'

export interface HandlerOptions {
  readonly fleet: Fleet
  readonly dispatcher: Dispatcher
  readonly deadlines: Deadlines
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: RouterMetrics
}

export class CompletionHandler {
  readonly #options: HandlerOptions
  readonly #active = new Set<RequestScope>()
  readonly #releases = new HandoffReleases()
  #isDraining = false
  #onIdle: () => void = () => {}

  constructor(options: HandlerOptions) {
    this.#options = options
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  async handle(path: CompletionPath, http: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { clock, random, metrics, logger, deadlines } = this.#options
    const requestId = chooseRequestId(http.headers['x-request-id'], random)
    const scope = new RequestScope({ requestId, clock, totalMs: deadlines.totalMs })
    this.#active.add(scope)
    reply.hijack()
    const answer = new ClientAnswer(reply.raw, scope, {
      stallMs: deadlines.clientStallMs,
      onEnd: () => void scope.settled().then(() => this.#forget(scope)),
    })
    let outcome: Outcome
    try {
      this.#admit()
      const request = parseCompletionRequest(path, http.body)
      if (request.hadTransferParams) {
        metrics.paramsDropped()
        logger.warn('kv_transfer_params from a client dropped', { requestId })
      }
      outcome = await this.#serve(http, request, scope, answer)
    } catch (error) {
      outcome = this.#fail(error, scope, answer)
    }
    metrics.requestEnd(outcome, clock.now() - scope.receivedAt)
  }

  /** Refuses new requests; resolves when none is left. Those that still run after `drainMs` are ended. */
  async drain(): Promise<void> {
    this.#isDraining = true
    await this.#requestsEnd()
    await this.#releases.end()
  }

  async #requestsEnd(): Promise<void> {
    if (this.#active.size === 0) return
    const { clock, deadlines } = this.#options
    const idle = new Promise<void>((resolve) => (this.#onIdle = resolve))
    const timer = clock.after(deadlines.drainMs, () => {
      for (const scope of this.#active) scope.abort(draining())
    })
    await idle
    timer.stop()
  }

  #admit(): void {
    if (this.#isDraining) throw draining()
    if (this.#active.size <= routerLimits.activeRequestCountMax) return
    throw new RouterError({
      status: 503,
      code: 'ERR_KV_LIMIT',
      outcome: 'unavailable',
      message: `more than ${routerLimits.activeRequestCountMax} requests in progress`,
    })
  }

  async #serve(
    http: FastifyRequest,
    request: CompletionRequest,
    scope: RequestScope,
    answer: ClientAnswer,
  ): Promise<Outcome> {
    const wantsTimings = http.headers['x-kvferry-timings'] === '1'
    const { fleet, deadlines, random, logger, metrics, dispatcher } = this.#options
    const headers = legHeaders(scope.requestId, http.headers.authorization, wantsTimings)
    const shared = { fleet, deadlines, random, logger, metrics, releases: this.#releases }
    const context = { ...shared, scope, request, headers }
    const routed = await dispatcher.dispatch(context)
    const answerHeaders = {
      'content-type': routed.contentType,
      'x-request-id': scope.requestId,
      ...(wantsTimings ? { 'x-kvferry-timings': timingsHeader(routed.timings) } : {}),
    }
    if (routed.kind === 'whole') {
      const retry = retryHeaders(routed.status, routed.retryAfter)
      answer.whole(routed.status, routed.text, { ...answerHeaders, ...retry })
      return routed.status < 400 ? 'ok' : 'client-error'
    }
    return this.#stream(routed, answerHeaders, scope, answer, wantsTimings)
  }

  async #stream(
    routed: RoutedAnswer & { kind: 'stream' },
    headers: Readonly<Record<string, string>>,
    scope: RequestScope,
    answer: ClientAnswer,
    wantsTimings: boolean,
  ): Promise<Outcome> {
    const { metrics } = this.#options
    // Under push P may answer after D began to: what P measured then follows the last byte.
    const hasLateTimings = wantsTimings && routed.timings.prefill === null
    const late = hasLateTimings ? { trailer: 'x-kvferry-timings' } : {}
    metrics.streamStart()
    try {
      for await (const chunk of routed.chunks) {
        if (!answer.hasStarted) {
          answer.start(200, { ...headers, ...late, 'cache-control': 'no-cache' })
        }
        await answer.write(chunk)
      }
      if (hasLateTimings) answer.trail({ 'x-kvferry-timings': timingsHeader(routed.timings) })
      answer.end('')
      return routed.hasFailed() ? 'truncated' : 'ok'
    } catch (error) {
      if (!answer.hasStarted) throw error
      const known = this.#known(error, scope)
      answer.end(errorEvent(known.body, routed.isInsideEvent()))
      return known.outcome === 'decode-failed' ? 'truncated' : known.outcome
    } finally {
      metrics.streamEnd()
    }
  }

  #fail(error: unknown, scope: RequestScope, answer: ClientAnswer): Outcome {
    const known = this.#known(error, scope)
    answer.whole(known.status, JSON.stringify(known.body), {
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': scope.requestId,
      ...retryHeaders(known.status, null),
    })
    return known.outcome
  }

  /** An unexpected error is a bug of ours: the client gets no details, the log the stack. */
  #known(error: unknown, { requestId }: RequestScope): RouterError {
    if (error instanceof RouterError) return error
    const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.#options.logger.error('unexpected error', { requestId, stack })
    return new RouterError({
      status: 500,
      code: 'internal_error',
      outcome: 'internal',
      message: 'unexpected error in the router',
    })
  }

  #forget(scope: RequestScope): void {
    scope.end()
    this.#active.delete(scope)
    if (this.#active.size === 0) this.#onIdle()
  }
}

/** Overload and absence pass: the client is told when to try again. */
export function retryHeaders(status: number, said: string | null): Record<string, string> {
  const isRetryable = status === 429 || status === 503
  return isRetryable ? { 'retry-after': said ?? String(routerLimits.retryAfterSeconds) } : {}
}

/** Of the client's headers only its credentials travel on; ids and wishes are stated anew. */
function legHeaders(
  requestId: string,
  authorization: string | undefined,
  wantsTimings: boolean,
): Record<string, string> {
  return {
    'x-request-id': requestId,
    ...(authorization === undefined ? {} : { authorization }),
    ...(wantsTimings ? { 'x-kvferry-timings': '1' } : {}),
  }
}

/** Header values are ASCII; P's measurements are left out when they would not fit. */
function timingsHeader(timings: RoutedAnswer['timings']): string {
  const escaped = (value: unknown) =>
    JSON.stringify(value).replace(
      /[^\x20-\x7e]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
  const text = escaped(timings)
  const fits = text.length <= routerLimits.timingsHeaderSizeBytesMax
  return fits ? text : escaped({ ...timings, prefill: null })
}
