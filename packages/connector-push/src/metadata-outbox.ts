/**
 * What the scheduler half has yet to tell the worker half, in order. Drained once a step up to the limits
 * of one step's metadata; what does not fit leaves with the next. Owned by scheduler.ts.
 */
import { protocolLimits } from '@kvferry/connector-api/protocol'
import { encodeMetadata, entrySizeBytes, type MetadataEntry } from './metadata.ts'

export class MetadataOutbox {
  #entries: MetadataEntry[] = []

  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  /**
   * Every entry belongs to a tracked request, except for those that came and went while the engine took no
   * step: they could pile up without bound. Past the limit such a request leaves no trace here, and its
   * producer's lease ends by itself.
   */
  push(entry: MetadataEntry): void {
    const isFull = this.#entries.length >= protocolLimits.metadataEntryCountMax
    if (isFull && (entry.kind === 'release' || entry.kind === 'withdraw')) {
      const { requestId } = entry
      const beginning = entry.kind === 'release' ? 'offer' : 'announce'
      const others = this.#entries.filter(
        (other) => other.kind !== beginning || other.requestId !== requestId,
      )
      const wasWaiting = others.length < this.#entries.length
      this.#entries = others
      if (wasWaiting) return
    }
    this.#entries.push(entry)
  }

  /** One step's metadata. */
  drain(): Uint8Array {
    const { metadataEntryCountMax, metadataSizeBytesMax } = protocolLimits
    let count = 0
    let sizeBytes = 0
    for (const entry of this.#entries) {
      sizeBytes += entrySizeBytes(entry)
      const isOver = sizeBytes > metadataSizeBytesMax || count >= metadataEntryCountMax
      if (isOver && count > 0) break
      count += 1
    }
    return encodeMetadata(this.#entries.splice(0, count))
  }

  clear(): void {
    this.#entries = []
  }
}
