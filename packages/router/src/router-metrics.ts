/**
 * The router's own numbers, on a Prometheus registry of their own. Created once per router; written by
 * the HTTP layer and the legs, read by `/metrics`. Label values come from closed sets, never from clients.
 */
import { connectorErrorCodes } from '@kvferry/connector-api'
import { Counter, Gauge, Histogram, Registry } from '@kvferry/runtime'
import type { Fleet } from './fleet.ts'
import type { HandoffEnd } from './handoff-state.ts'
import type { ReleaseOutcome } from './release-handoff.ts'
import type { Leg, Outcome } from './router-error.ts'

export interface RouterMetrics {
  readonly contentType: string
  text(): Promise<string>
  requestEnd(outcome: Outcome, durationMs: number): void
  /** Time that a request spent in the router itself: before P, and between P's answer and D. */
  addedLatency(durationMs: number): void
  upstreamError(leg: Leg, code: string): void
  retry(leg: Leg): void
  paramsDropped(): void
  recomputed(): void
  /** A handoff is a decode engine's, or on its way back (sequential dispatch). */
  handoffEnded(end: HandoffEnd): void
  released(outcome: ReleaseOutcome): void
  releaseRetried(): void
  streamStart(): void
  streamEnd(): void
}

const requestBucketsSeconds = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000]
const addedBucketsSeconds = [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3]

const ownCodes: ReadonlySet<string> = new Set(connectorErrorCodes)

export function createRouterMetrics(fleet: Fleet): RouterMetrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Counter({
    name: 'kv_router_requests_total',
    help: 'Completion requests that ended, by outcome',
    labelNames: ['outcome'],
    registers,
  })
  const durations = new Histogram({
    name: 'kv_router_request_duration_seconds',
    help: 'Arrival of a request to its end, by outcome',
    labelNames: ['outcome'],
    buckets: requestBucketsSeconds,
    registers,
  })
  const added = new Histogram({
    name: 'kv_router_added_latency_seconds',
    help: 'Time a request spent in the router itself: before the prefill leg and between the legs',
    buckets: addedBucketsSeconds,
    registers,
  })
  const upstreamErrors = new Counter({
    name: 'kv_router_upstream_errors_total',
    help: 'Failed calls to engines, by leg and error code',
    labelNames: ['leg', 'code'],
    registers,
  })
  const retries = new Counter({
    name: 'kv_router_retries_total',
    help: 'Calls repeated at another engine because the first could not be reached, by leg',
    labelNames: ['leg'],
    registers,
  })
  const dropped = new Counter({
    name: 'kv_router_client_params_dropped_total',
    help: 'Requests whose kv_transfer_params were removed because a client sent them',
    registers,
  })
  const recomputed = new Counter({
    name: 'kv_router_recomputed_total',
    help: 'Requests whose prompt the decode engine had to compute because prefill gave no handoff',
    registers,
  })
  const handoffs = new Counter({
    name: 'kv_router_handoffs_total',
    help: 'Handoffs of prefill engines that decode engines come second to, by whose they became',
    labelNames: ['end'],
    registers,
  })
  const releaseRetries = new Counter({
    name: 'kv_router_release_retries_total',
    help: 'Attempts at giving a handoff back that had failed and were repeated',
    registers,
  })
  const releases = new Counter({
    name: 'kv_router_releases_total',
    help: 'Handoffs that no decode engine took, by how giving them back ended',
    labelNames: ['outcome'],
    registers,
  })
  const streams = new Gauge({
    name: 'kv_router_streams_active',
    help: 'Streams being passed through now',
    registers,
  })
  new Gauge({
    name: 'kv_router_engines_up',
    help: 'Engines that answer, by leg',
    labelNames: ['leg'],
    registers,
    collect() {
      for (const leg of ['prefill', 'decode'] as const) {
        const up = fleet.engines.filter((engine) => engine.leg === leg && engine.peer !== null)
        this.set({ leg }, up.length)
      }
    },
  })
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    requestEnd(outcome, durationMs) {
      requests.inc({ outcome })
      durations.observe({ outcome }, durationMs / 1_000)
    },
    addedLatency: (durationMs) => added.observe(durationMs / 1_000),
    upstreamError(leg, code) {
      upstreamErrors.inc({ leg, code: ownCodes.has(code) ? code : 'other' })
    },
    retry: (leg) => retries.inc({ leg }),
    paramsDropped: () => dropped.inc(),
    recomputed: () => recomputed.inc(),
    handoffEnded: (end) => handoffs.inc({ end }),
    released: (outcome) => releases.inc({ outcome }),
    releaseRetried: () => releaseRetries.inc(),
    streamStart: () => streams.inc(),
    streamEnd: () => streams.dec(),
  }
}
