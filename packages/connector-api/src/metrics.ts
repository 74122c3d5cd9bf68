/**
 * Metrics port. Names and labels are fixed here (one table, one meaning each, base units, subject
 * first); `runtime` exports them in Prometheus form. An implementation never throws.
 */
export const metricDefinitions = {
  kv_transfer_duration_seconds: {
    kind: 'histogram',
    help: 'Start of post to final status of one READ or WRITE, as seen by the agent thread',
    labels: ['direction'],
  },
  kv_transfer_post_seconds: {
    kind: 'histogram',
    help: 'Time the agent thread spent building and posting one transfer',
    labels: ['direction'],
  },
  kv_transfer_bytes_total: {
    kind: 'counter',
    help: 'Bytes moved by transfers that ended done',
    labels: ['direction'],
  },
  kv_transfer_descriptors_total: {
    kind: 'counter',
    help: 'Descriptors posted, after neighbours were merged',
    labels: ['direction'],
  },
  kv_transfers_failed_total: {
    kind: 'counter',
    help: 'Transfers whose final status was an error, by error code',
    labels: ['code'],
  },
  kv_transfers_overdue_total: {
    kind: 'counter',
    help: 'Transfers that had no final status at their deadline',
    labels: ['direction'],
  },
  kv_loads_failed_total: {
    kind: 'counter',
    help: 'Loads reported failed to the engine, by error code',
    labels: ['code'],
  },
  kv_leases_granted_total: { kind: 'counter', help: 'Leases granted by the producer', labels: [] },
  kv_leases_expired_total: {
    kind: 'counter',
    help: 'Leases that ended without the reader’s word',
    labels: [],
  },
  kv_requests_open: {
    kind: 'gauge',
    help: 'Requests that the connector follows now: their KV comes from another engine, or goes to one',
    labels: [],
  },
  kv_loads_open: {
    kind: 'gauge',
    help: 'Loads taken on and not reported yet, on each rank',
    labels: [],
  },
  kv_connections_open: {
    kind: 'gauge',
    help: 'Ranks of other engines that a rank of this one can load from, their handshake done',
    labels: [],
  },
  kv_leases_open: { kind: 'gauge', help: 'Leases held now', labels: [] },
  kv_blocks_quarantined: {
    kind: 'gauge',
    help: 'Blocks out of service because a transfer may still touch them',
    labels: [],
  },
  kv_emulated_peers_total: {
    kind: 'counter',
    help: 'Peers to whose GPU memory transfers by descriptors turned out to be emulated in software',
    labels: ['direction'],
  },
  kv_handshakes_failed_total: {
    kind: 'counter',
    help: 'Handshakes that ended in an error, by error code',
    labels: ['code'],
  },
  kv_messages_refused_total: {
    kind: 'counter',
    help: 'Malformed, unknown or unauthorised messages refused, by where they arrived',
    labels: ['where'],
  },
  kv_late_notifications_total: {
    kind: 'counter',
    help: 'Read-done notifications for requests that hold no lease any more',
    labels: [],
  },
  kv_history_saved_blocks_total: {
    kind: 'counter',
    help: 'Blocks that history took in',
    labels: [],
  },
  kv_history_hit_blocks_total: {
    kind: 'counter',
    help: 'Blocks that history wrote back into the engine, by the tier they came from',
    labels: ['tier'],
  },
  kv_history_demoted_blocks_total: {
    kind: 'counter',
    help: 'Blocks that history moved from the device to the host tier',
    labels: [],
  },
  kv_history_dropped_blocks_total: {
    kind: 'counter',
    help: 'Blocks of finished requests that history did not take in, by cause',
    labels: ['cause'],
  },
  kv_history_failures_total: {
    kind: 'counter',
    help: 'Requests whose blocks history could not save, or not load, for an error',
    labels: ['what'],
  },
} as const satisfies Record<
  string,
  { kind: 'counter' | 'gauge' | 'histogram'; help: string; labels: readonly string[] }
>

export type MetricName = keyof typeof metricDefinitions
export type MetricLabels = Readonly<Record<string, string>>

export interface Metrics {
  /** Counter: adds `amount` (default 1, never negative). */
  add(name: MetricName, amount?: number, labels?: MetricLabels): void
  /** Gauge: sets the value. */
  set(name: MetricName, value: number, labels?: MetricLabels): void
  /** Histogram: records one observation in the metric's unit. */
  observe(name: MetricName, value: number, labels?: MetricLabels): void
}

export const silentMetrics: Metrics = { add() {}, set() {}, observe() {} }
