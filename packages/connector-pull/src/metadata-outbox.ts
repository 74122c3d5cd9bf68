/**
 * What the scheduler half has yet to tell the worker half, in order. Drained once a step up to the limits
 * of one step's metadata; what does not fit leaves with the next. Owned by scheduler.ts.
 */
import type { Instant, RequestId } from '@kvferry/connector-api'
import { protocolLimits } from '@kvferry/connector-api/protocol'
import { encodeMetadata, entrySizeBytes, type MetadataEntry } from './metadata.ts'

/** A lease waits with its deadline, since the time left is only known when the step is built. */
export type PendingEntry =
  | Exclude<MetadataEntry, { kind: 'lease' }>
  | { readonly kind: 'lease-until'; readonly requestId: RequestId; readonly deadline: Instant }

export class MetadataOutbox {
  #entries: PendingEntry[] = []

  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  /**
   * Every entry belongs to a tracked request, except for those that came and went while the engine took no
   * step: they could pile up without bound. Past the limit such a request leaves no trace here, and its
   * lease ends by itself.
   */
  push(entry: PendingEntry): void {
    const isFull = this.#entries.length >= protocolLimits.metadataEntryCountMax
    if (entry.kind === 'release' && isFull) {
      const isOfOther = (other: PendingEntry): boolean =>
        other.kind !== 'offer' || other.requestId !== entry.requestId
      const others = this.#entries.filter(isOfOther)
      const wasOffered = others.length === this.#entries.length
      this.#entries = others
      if (!wasOffered) return
    }
    this.#entries.push(entry)
  }

  /** One step's metadata. */
  drain(now: Instant): Uint8Array {
    if (this.isEmpty) return encodeMetadata([])
    const shipped: MetadataEntry[] = []
    let sizeBytes = 0
    for (const pending of this.#entries) {
      const entry = shippedForm(pending, now)
      sizeBytes += entrySizeBytes(entry)
      const isOver =
        sizeBytes > protocolLimits.metadataSizeBytesMax ||
        shipped.length >= protocolLimits.metadataEntryCountMax
      if (isOver && shipped.length > 0) break
      shipped.push(entry)
    }
    this.#entries = this.#entries.slice(shipped.length)
    return encodeMetadata(shipped)
  }

  clear(): void {
    this.#entries = []
  }
}

function shippedForm(entry: PendingEntry, now: Instant): MetadataEntry {
  if (entry.kind !== 'lease-until') return entry
  const remainingMs = Math.max(0, entry.deadline - now)
  return { kind: 'lease', requestId: entry.requestId, remainingMs }
}
