/**
 * The metrics of transfers: one that got its final status, and one that did not in time; see the metric
 * table of connector-api.
 */
import type { CommonComponents, Metrics, TransferCompletion, TransferTimes } from '../index.ts'

type Direction = 'read' | 'write'

/** When the agent's thread took a post up, in the clock that says when it was handed over. */
export const takenAtMs = (handedOverAtMs: number, { queuedUs }: TransferTimes): number =>
  handedOverAtMs + queuedUs / 1_000

/** When its bytes had moved: before its completion could be read. */
export const endedAtMs = (handedOverAtMs: number, times: TransferTimes): number =>
  takenAtMs(handedOverAtMs, times) + (times.prepareUs + times.wireUs) / 1_000

export function recordTransfer(
  metrics: Metrics,
  direction: Direction,
  completion: Exclude<TransferCompletion, { status: 'overdue' }>,
): void {
  if (completion.status === 'failed') {
    metrics.add('kv_transfers_failed_total', 1, { code: completion.error.code })
    return
  }
  const labels = { direction }
  const { wireUs, postUs, bytes, descriptorsAfterMerge } = completion.times
  metrics.observe('kv_transfer_duration_seconds', wireUs / 1e6, labels)
  metrics.observe('kv_transfer_post_seconds', postUs / 1e6, labels)
  metrics.add('kv_transfer_bytes_total', bytes, labels)
  metrics.add('kv_transfer_descriptors_total', descriptorsAfterMerge, labels)
}

/** `blockCount`: out of service until it ends. */
export function recordOverdue(
  { logger, metrics }: CommonComponents,
  direction: Direction,
  transfer: { readonly requestId: string; readonly engineId: string; readonly blockCount: number },
): void {
  metrics.add('kv_transfers_overdue_total', 1, { direction })
  const name = direction.toUpperCase()
  logger.warn(`${name} overdue: its blocks are out of service until it ends`, {
    requestId: transfer.requestId,
    engineId: transfer.engineId,
    blocks: transfer.blockCount,
  })
}
