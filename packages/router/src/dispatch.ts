/**
 * The seam between the HTTP layer and the order in which engines are asked. A strategy takes one valid
 * request and comes back with what the client gets; whatever goes wrong is a thrown RouterError.
 * `sequential` (D after P has answered) is in sequential-dispatch.ts; a connector whose engines meet by
 * themselves needs both asked at once, which is another strategy over the same legs.
 */
import type { Logger } from '@kvferry/connector-api'
import type { CompletionRequest } from './completion-request.ts'
import type { DecodeResult } from './decode-leg.ts'
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

export type RoutedAnswer = DecodeResult & {
  readonly timings: { readonly router: RouterTimings; readonly prefill: unknown }
}

export interface DispatchStrategy {
  readonly name: string
  /** What engines must announce to be served this way; others are refused by `/ready`. */
  readonly transferModes: ReadonlySet<string>
  /** @throws RouterError. The scope's abort reason, once it is aborted. */
  dispatch(context: DispatchContext): Promise<RoutedAnswer>
}
