/**
 * Reservations: which blocks readers have pinned, and until when. All leases last equally long and none is
 * renewed, so the oldest ends first. Ends are looked for where they matter, before something is reserved,
 * staged or restored; a lease that is being read doesn't end before the read.
 */
import { assert, instantPlus, type HistoryLease, type Instant } from '@kvferry/connector-api'
import type { HistoryStore } from './history-store.ts'

export interface LeaseBounds {
  readonly leaseDurationMs: number
  readonly leaseCountMax: number
}

interface LeaseRecord {
  readonly ids: Uint32Array
  readonly deadline: Instant
  isReading: boolean
}

export class LeaseTable {
  readonly #store: HistoryStore
  readonly #bounds: LeaseBounds
  readonly #records = new Map<HistoryLease, LeaseRecord>()
  #lastNumber = 0

  constructor(store: HistoryStore, bounds: LeaseBounds) {
    this.#store = store
    this.#bounds = bounds
  }

  get count(): number {
    return this.#records.size
  }

  /** Pins entries. Null when too many leases are open. */
  open(ids: Uint32Array, now: Instant): HistoryLease | null {
    if (this.#records.size >= this.#bounds.leaseCountMax) return null
    for (const id of ids) this.#store.pin(id)
    this.#lastNumber += 1
    const lease = `history:${this.#lastNumber}` as HistoryLease
    const deadline = instantPlus(now, this.#bounds.leaseDurationMs)
    this.#records.set(lease, { ids, deadline, isReading: false })
    return lease
  }

  /** Ends what is past its time. @returns how many leases. */
  expire(now: Instant): number {
    let count = 0
    for (const [lease, record] of this.#records) {
      if (record.deadline > now) break
      if (record.isReading) continue
      this.#end(lease, record)
      count += 1
    }
    return count
  }

  /** Marks the lease as being read: only `endReading` ends it now. Null: there is none, or it is being read. */
  startReading(lease: HistoryLease): Uint32Array | null {
    const record = this.#records.get(lease)
    if (record === undefined || record.isReading) return null
    record.isReading = true
    return record.ids
  }

  endReading(lease: HistoryLease): void {
    const record = this.#records.get(lease)
    assert(record?.isReading === true, 'a read ends that did not begin')
    this.#end(lease, record)
  }

  /** Idempotent; nothing while the lease is being read. */
  release(lease: HistoryLease): void {
    const record = this.#records.get(lease)
    if (record !== undefined && !record.isReading) this.#end(lease, record)
  }

  /** All but those that are being read. */
  releaseAll(): void {
    for (const lease of [...this.#records.keys()]) this.release(lease)
  }

  #end(lease: HistoryLease, record: LeaseRecord): void {
    this.#records.delete(lease)
    for (const id of record.ids) this.#store.unpin(id)
  }
}
