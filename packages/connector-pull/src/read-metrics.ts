/**
 * The metrics of one READ that got its final status; see the metric table of connector-api.
 */
import type { Metrics, TransferCompletion } from '@kvferry/connector-api'

export function recordRead(
  metrics: Metrics,
  completion: Exclude<TransferCompletion, { status: 'overdue' }>,
): void {
  if (completion.status === 'failed') {
    metrics.add('kv_transfers_failed_total', 1, { code: completion.error.code })
    return
  }
  const labels = { direction: 'read' }
  const { wireUs, postUs, bytes, descriptorsAfterMerge } = completion.times
  metrics.observe('kv_transfer_duration_seconds', wireUs / 1e6, labels)
  metrics.observe('kv_transfer_post_seconds', postUs / 1e6, labels)
  metrics.add('kv_transfer_bytes_total', bytes, labels)
  metrics.add('kv_transfer_descriptors_total', descriptorsAfterMerge, labels)
}
