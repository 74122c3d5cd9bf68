/**
 * The seam between the HTTP layer and the order in which engines are asked. A strategy takes one valid
 * request and comes back with what the client gets; whatever goes wrong is a thrown RouterError.
 * `sequential` (D after P has answered) is in sequential-dispatch.ts, `concurrent` (both at once, for
 * connectors whose engines meet by themselves) in concurrent-dispatch.ts; which of them serves a request
 * is what the prefill engine announces, whatever connector it runs.
 */
import { assert, type Logger, type Random } from '@kvferry/connector-api'
import type { CompletionRequest } from './completion-request.ts'
import type { DecodeResult } from './decode-leg.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import type { Fleet } from './fleet.ts'
import type { Deadlines } from './limits.ts'
import type { HandoffReleases } from './release-handoff.ts'
import type { RequestScope } from './request-scope.ts'
import type { RouterMetrics } from './router-metrics.ts'

export interface DispatchContext {
  readonly scope: RequestScope
  readonly request: CompletionRequest
  /** Sent on both legs: request id, authorization, and the wish for measurements. */
  readonly headers: Readonly<Record<string, string>>
  readonly fleet: Fleet
  readonly deadlines: Deadlines
  readonly random: Random
  readonly logger: Logger
  readonly metrics: RouterMetrics
  readonly releases: HandoffReleases
}

/** Absolute ms of the system-wide monotonic clock; null = that moment never came. */
export interface RouterTimings {
  receivedAtMs: number
  prefillSentAtMs: number | null
  prefillAnsweredAtMs: number | null
  decodeSentAtMs: number | null
}

export interface Timings {
  readonly router: RouterTimings
  /** Null until the prefill engine has answered, which may be after the decode engine began to. */
  prefill: unknown
}

export type RoutedAnswer = DecodeResult & { readonly timings: Timings }

export interface DispatchStrategy {
  /** The `dispatch` that engines announce to be served this way. */
  readonly name: string
  /** What this prefill engine lacks to be served this way, with the remedy; null: nothing. */
  obstacle(prefill: EnginePeer): string | null
  /**
   * Begins with this prefill engine.
   * @throws RouterError. The scope's abort reason, once it is aborted.
   */
  dispatch(context: DispatchContext, prefill: Engine): Promise<RoutedAnswer>
}

export interface Dispatcher {
  /** Why no request may go to this prefill engine, for `/ready`; null: one may. */
  obstacle(prefill: EnginePeer): string | null
  /** @throws RouterError, also when no engine can take the request. */
  dispatch(context: DispatchContext): Promise<RoutedAnswer>
}

/** Each request goes the way of the prefill engine whose turn it is. */
export function createDispatcher(strategies: readonly DispatchStrategy[]): Dispatcher {
  const strategyFor = (dispatch: string | null) => strategies.find(({ name }) => name === dispatch)
  return {
    obstacle(prefill) {
      const { transferMode, dispatch } = prefill
      if (transferMode === null) return 'runs without a connector'
      const strategy = strategyFor(dispatch)
      if (strategy !== undefined) return strategy.obstacle(prefill)
      if (dispatch !== null) return `no dispatch "${dispatch}" in this router`
      return `does not say its dispatch, and transferMode "${transferMode}" implies none here`
    },
    async dispatch(context) {
      const prefill = context.fleet.choosePrefill(new Set())
      const strategy = strategyFor(prefill.peer?.dispatch ?? null)
      assert(strategy !== undefined, 'a prefill engine without a dispatch strategy was chosen')
      return strategy.dispatch(context, prefill)
    },
  }
}
