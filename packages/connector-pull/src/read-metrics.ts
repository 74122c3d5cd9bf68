/**
 * The metrics of READs: one that got its final status, and one that did not in time; see the metric table
 * of connector-api.
 */
import type { CommonComponents, Metrics, TransferCompletion } from '@kvferry/connector-api'
import { blockCountOf, type LoadOrder } from './load-record.ts'

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

export function recordOverdue({ logger, metrics }: CommonComponents, order: LoadOrder): void {
  metrics.add('kv_transfers_overdue_total', 1, { direction: 'read' })
  logger.warn('READ overdue: its blocks are out of service until it ends', {
    requestId: order.requestId,
    engineId: order.handoff.remote.engineId,
    blocks: blockCountOf(order),
  })
}
