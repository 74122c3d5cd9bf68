/** Metrics that tests can read: the sum of all additions per name and first label value. */
import type { Metrics } from '@kvferry/connector-api'

export interface RecordingMetrics extends Metrics {
  /** Messages refused, by where; or in total. */
  refused(where?: string): number
}

export function createRecordingMetrics(): RecordingMetrics {
  const refused = new Map<string, number>()
  return {
    add(name, amount = 1, labels = {}) {
      if (name !== 'kv_messages_refused_total') return
      const where = labels['where'] ?? ''
      refused.set(where, (refused.get(where) ?? 0) + amount)
    },
    set() {},
    observe() {},
    refused(where) {
      if (where !== undefined) return refused.get(where) ?? 0
      return [...refused.values()].reduce((sum, count) => sum + count, 0)
    },
  }
}
