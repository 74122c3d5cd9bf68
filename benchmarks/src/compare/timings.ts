/**
 * What the router reports about one request, in the response header that `X-Kvferry-Timings: 1` asks for.
 * Engines' own reports are typed by the engine's package. All times are milliseconds of the system-wide
 * monotonic clock, so times taken in different processes of one machine compare.
 */
import type { EngineTimings } from '@kvferry/reference-engine'
import type { RouterTimings } from '@kvferry/router'

export interface RoutedTimings {
  readonly router: RouterTimings
  /** Null when P did not say. */
  readonly prefill: EngineTimings | null
}
