/**
 * A history for clusters that is as small as the port allows: it keeps everything, in a map, and copies whole blocks
 * at the end of a delay, so that whoever gives a block away too early is seen by the bytes. Judges connectors, and
 * knows no tiers; `@kvferry/kv-history` is the real one.
 */
import { blockKeyCount, blockKeySizeBytes, type BlockKeys } from '../../block-keys.ts'
import type { Clock } from '../../clock.ts'
import { ConnectorError } from '../../errors.ts'
import { historyCounterNames, type HistoryCounters } from '../../history-counters.ts'
import {
  noDestination,
  type HistoryGauges,
  type HistoryLease,
  type HistoryOffer,
  type HistoryOptions,
  type HistoryProvider,
  type HistoryReservation,
  type HistoryRestore,
  type KvHistory,
} from '../../history.ts'
import type { KvCacheLayout } from '../../kv-memory.ts'

export interface ToyHistoryFaults {
  /** Every restore finds that its lease has ended. */
  losesLeases?: boolean
  /** Every restore fails when it has written. */
  failsRestores?: boolean
}

export class ToyHistory implements KvHistory {
  readonly isEnabled = true
  readonly faults: ToyHistoryFaults = {}
  isClosed = false
  savedBlockCount = 0
  hitBlockCount = 0
  readonly #clock: Clock
  readonly #caches: KvCacheLayout
  readonly #copyMs: number
  /** By key: the block's bytes in each region. */
  readonly #blocks = new Map<string, Uint8Array[]>()
  readonly #leases = new Map<HistoryLease, readonly string[]>()
  #leaseCount = 0

  constructor({ clock, caches }: HistoryOptions, copyMs: number) {
    this.#clock = clock
    this.#caches = caches
    this.#copyMs = copyMs
  }

  get openLeaseCount(): number {
    return this.#leases.size
  }

  lookup(keys: BlockKeys, firstBlock: number): number {
    return this.#run(keys, firstBlock).length
  }

  reserve(keys: BlockKeys, firstBlock: number): HistoryReservation | null {
    const run = this.#run(keys, firstBlock)
    if (run.length === 0 || this.isClosed) return null
    const lease = `history:${(this.#leaseCount += 1)}` as HistoryLease
    this.#leases.set(lease, run)
    return { lease, blockCount: run.length }
  }

  async restore(lease: HistoryLease, destinations: Uint32Array): Promise<HistoryRestore> {
    const run = this.#leases.get(lease)
    if (run === undefined || this.faults.losesLeases === true) {
      this.#leases.delete(lease)
      return { kind: 'lease-gone' }
    }
    await this.#delay()
    this.#leases.delete(lease)
    let blockCount = 0
    for (const [at, block] of destinations.entries()) {
      if (block === noDestination) continue
      blockCount += 1
      const kept = this.#blocks.get(run[at]!)!
      for (const [region, bytes] of this.#bytesOf(block).entries()) bytes.set(kept[region]!)
    }
    if (this.faults.failsRestores === true) {
      const details = { operation: 'restore', peer: 'history', status: 'told to fail' }
      const error = new ConnectorError('ERR_KV_TRANSFER_FAILED', 'told to fail', details)
      return { kind: 'failed', error }
    }
    this.hitBlockCount += blockCount
    return { kind: 'restored', blockCount, deviceBlockCount: 0 }
  }

  release(lease: HistoryLease): void {
    this.#leases.delete(lease)
  }

  offer({ keys, blockIds }: HistoryOffer): Promise<void> | null {
    if (this.isClosed || blockIds.length === 0) return null
    return this.#delay().then(() => {
      for (const [at, block] of blockIds.entries()) {
        this.#blocks.set(
          keyOf(keys, at),
          this.#bytesOf(block).map((bytes) => bytes.slice()),
        )
        this.savedBlockCount += 1
      }
    })
  }

  counters(): HistoryCounters {
    const none = Object.fromEntries(historyCounterNames.map((name) => [name, 0])) as HistoryCounters
    const { savedBlockCount, hitBlockCount } = this
    return { ...none, historySavedBlocks: savedBlockCount, historyHitBlocks: hitBlockCount }
  }

  gauges(): HistoryGauges {
    return {
      ...{ deviceMemory: 'host', deviceBlocks: 0, hostBlocks: this.#blocks.size },
      ...{ deviceBlockCapacity: 0, hostBlockCapacity: this.#blocks.size, deviceBytesReserved: 0 },
      ...{ hostBytesReserved: 0, leasesOpen: this.#leases.size, slotsQuarantined: 0 },
    }
  }

  async close(): Promise<void> {
    this.isClosed = true
  }

  #run(keys: BlockKeys, firstBlock: number): string[] {
    const run: string[] = []
    for (let at = firstBlock; at < blockKeyCount(keys); at += 1) {
      const key = keyOf(keys, at)
      if (!this.#blocks.has(key)) break
      run.push(key)
    }
    return run
  }

  #bytesOf(block: number): Uint8Array[] {
    return this.#caches.regions.map(({ memory, offsetBytes, blockStrideBytes, blockSizeBytes }) => {
      const start = offsetBytes + block * blockStrideBytes
      return memory.bytes!.subarray(start, start + blockSizeBytes)
    })
  }

  #delay(): Promise<void> {
    return new Promise((resolve) => void this.#clock.after(this.#copyMs, resolve))
  }
}

/** Opens one for each worker half, and remembers them, in the order in which they were opened. */
export class ToyHistories implements HistoryProvider {
  readonly opened: ToyHistory[] = []
  readonly #copyMs: number

  constructor(copyMs: number) {
    this.#copyMs = copyMs
  }

  open(options: HistoryOptions): ToyHistory {
    const history = new ToyHistory(options, this.#copyMs)
    this.opened.push(history)
    return history
  }
}

const keyOf = (keys: BlockKeys, at: number): string =>
  Buffer.from(keys.subarray(at * blockKeySizeBytes, (at + 1) * blockKeySizeBytes)).toString(
    'latin1',
  )
