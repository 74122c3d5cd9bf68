/** One place where history counts: totals by name, and the metrics that some of them feed. */
import {
  historyCounterNames,
  type HistoryCounterName,
  type MetricLabels,
  type MetricName,
  type Metrics,
} from '@kvferry/connector-api'
import { Counters } from '@kvferry/connector-api/protocol'

type Feed = readonly [MetricName, MetricLabels]

const dropped = (cause: string): Feed => ['kv_history_dropped_blocks_total', { cause }]

const feeds: Readonly<Partial<Record<HistoryCounterName, Feed>>> = {
  historySavedBlocks: ['kv_history_saved_blocks_total', {}],
  historyDeviceHitBlocks: ['kv_history_hit_blocks_total', { tier: 'device' }],
  historyHostHitBlocks: ['kv_history_hit_blocks_total', { tier: 'host' }],
  historyDemotions: ['kv_history_demoted_blocks_total', {}],
  historyFailures: ['kv_history_failures_total', { what: 'save' }],
  historyFailedLoads: ['kv_history_failures_total', { what: 'load' }],
  historyAdmissionRejectedBlocks: dropped('not-admitted'),
  historyCapacityLimitedByRequest: dropped('request-limit'),
  historyCapacityLimitedByTiers: dropped('tier-capacity'),
  historyCapacityLimitedByReaders: dropped('pinned'),
  historyDeadlineDroppedBlocks: dropped('deadline'),
  historyClosingDroppedBlocks: dropped('closing'),
}

export class HistoryCounts extends Counters<HistoryCounterName> {
  readonly #metrics: Metrics

  constructor(metrics: Metrics) {
    super(historyCounterNames)
    this.#metrics = metrics
  }

  override add(name: HistoryCounterName, amount = 1): void {
    if (amount === 0) return
    super.add(name, amount)
    const feed = feeds[name]
    if (feed !== undefined) this.#metrics.add(feed[0], amount, feed[1])
  }
}
