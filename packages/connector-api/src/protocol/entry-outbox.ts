/**
 * What a scheduler half has yet to tell its worker half, in order. Drained once a step up to the limits of
 * one step's metadata; what does not fit leaves with the next.
 */
import type { RequestId } from '../index.ts'
import { protocolLimits } from './limits.ts'

interface Entry {
  readonly kind: string
  readonly requestId: RequestId
}

export interface EntryOutboxOptions<E extends Entry> {
  readonly encode: (entries: readonly E[]) => Uint8Array
  /** Upper bound of an entry's encoded size. */
  readonly sizeBytesOf: (entry: E) => number
  /** Kinds that end what another kind began, and the other kind. */
  readonly beginningOf: Readonly<Partial<Record<E['kind'], E['kind']>>>
}

export class EntryOutbox<E extends Entry> {
  readonly #init: EntryOutboxOptions<E>
  #entries: E[] = []

  constructor(init: EntryOutboxOptions<E>) {
    this.#init = init
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  /**
   * Every entry belongs to a tracked request, except for those that came and went while the engine took no
   * step: they could pile up without bound. Past the limit such a request leaves no trace here, and what its
   * peer keeps for it ends by itself.
   */
  push(entry: E): void {
    const isFull = this.#entries.length >= protocolLimits.metadataEntryCountMax
    const beginning = this.#init.beginningOf[entry.kind as E['kind']]
    if (isFull && beginning !== undefined) {
      const { requestId } = entry
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
      sizeBytes += this.#init.sizeBytesOf(entry)
      const isOver = sizeBytes > metadataSizeBytesMax || count >= metadataEntryCountMax
      if (isOver && count > 0) break
      count += 1
    }
    return this.#init.encode(this.#entries.splice(0, count))
  }

  clear(): void {
    this.#entries = []
  }
}
