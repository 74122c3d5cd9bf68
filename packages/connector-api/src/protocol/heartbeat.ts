/**
 * When leases are renewed, and in which portions. A consumer renews what it was offered until it has read
 * it or gives it up: requests may wait in its queue for longer than a lease. Pure.
 */
import { utf8Size } from './bytes.ts'
import { protocolLimits } from './limits.ts'

/** Five may be lost before a lease runs out. vLLM's rhythm: a sixth of the lease. */
export const heartbeatIntervalMs = (leaseDurationMs: number): number =>
  Math.max(protocolLimits.heartbeatIntervalMsMin, leaseDurationMs / 6)

/** Until the first renewal of a lease that has `leftMs`: at once when two intervals would be too long. */
export const firstHeartbeatDelayMs = (leftMs: number, intervalMs: number): number =>
  leftMs < 2 * intervalMs ? 0 : intervalMs

/** Portions that fit into one message, in order; every id is in exactly one. */
export function heartbeatPortions<Id extends string>(ids: readonly Id[]): Id[][] {
  const { heartbeatIdCountMax, heartbeatSizeBytesMax } = protocolLimits
  const portions: Id[][] = []
  let sizeBytes = Number.POSITIVE_INFINITY
  for (const id of ids) {
    const idSizeBytes = 2 + utf8Size(id)
    const last = portions.at(-1)
    const isFull = last === undefined || last.length >= heartbeatIdCountMax
    if (isFull || sizeBytes + idSizeBytes > heartbeatSizeBytesMax) {
      portions.push([id])
      sizeBytes = idSizeBytes
    } else {
      last.push(id)
      sizeBytes += idSizeBytes
    }
  }
  return portions
}
