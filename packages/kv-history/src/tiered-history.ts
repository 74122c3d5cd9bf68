/**
 * History over two tiers: joins index, leases, admission, writer and restores behind the port `KvHistory`.
 * Which calls come from where is said there. Everything but the copies is synchronous.
 */
import {
  ConnectorError,
  blockKeyCount,
  freeDirections,
  type AnyConnectorError,
  type BlockKeys,
  type Clock,
  type HistoryCounters,
  type HistoryGauges,
  type HistoryLease,
  type HistoryOffer,
  type HistoryReservation,
  type HistoryRestore,
  type KvHistory,
  type Logger,
  type Metrics,
  type Random,
  type TransferDirections,
} from '@kvferry/connector-api'
import type { BlockCopies } from './copies/block-copies.ts'
import { TrackedCopies } from './copies/tracked-copies.ts'
import { HistoryCounts } from './counts.ts'
import type { HistorySizes } from './history-sizes.ts'
import type { HistoryBounds } from './limits.ts'
import { planRestore } from './restoring/restore-plan.ts'
import { HistoryStore } from './store/history-store.ts'
import { noEntry } from './store/key-table.ts'
import { keyWords } from './store/key-words.ts'
import { LeaseTable } from './store/lease-table.ts'
import { noSlot } from './store/slot-pool.ts'
import { HistoryIntake } from './writing/history-intake.ts'
import type { HistoryPolicy } from './writing/history-policy.ts'

export interface TieredHistoryOptions {
  readonly sizes: HistorySizes
  readonly policy: HistoryPolicy
  readonly bounds: HistoryBounds
  readonly copies: BlockCopies
  /** Bytes of one block in each region. */
  readonly regionSizes: readonly number[]
  readonly deviceMemory: 'cuda' | 'host'
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  readonly directions?: TransferDirections
}

export class TieredHistory implements KvHistory {
  readonly isEnabled: boolean
  readonly #options: TieredHistoryOptions
  readonly #directions: TransferDirections
  readonly #store: HistoryStore
  readonly #leases: LeaseTable
  readonly #copies: TrackedCopies
  readonly #intake: HistoryIntake
  readonly #counts: HistoryCounts
  #closed: Promise<void> | null = null

  constructor(options: TieredHistoryOptions) {
    const { sizes, bounds, clock, logger, random, policy } = options
    const { deviceBlockCapacity, hostBlockCapacity } = sizes
    const capacity = deviceBlockCapacity + hostBlockCapacity
    this.isEnabled = capacity > 0
    this.#options = options
    this.#directions = options.directions ?? freeDirections
    this.#counts = new HistoryCounts(options.metrics)
    this.#store = new HistoryStore(deviceBlockCapacity, hostBlockCapacity, random)
    this.#leases = new LeaseTable(this.#store, bounds)
    this.#copies = new TrackedCopies(options.copies, clock, bounds.copyDeadlineMs, (copy) => {
      this.#counts.add('historyCopiesOverdue')
      const { from, to, fromBlocks } = copy
      logger.warn('history: a copy has no end yet', { from, to, blocks: fromBlocks.length })
    })
    this.#intake = new HistoryIntake({
      ...{ sizes, policy, bounds, clock, random, logger },
      ...{ store: this.#store, counts: this.#counts, copies: this.#copies },
      directions: this.#directions,
      regionCount: options.regionSizes.length,
      expireLeases: () => this.#expireLeases(),
    })
  }

  lookup(keys: BlockKeys, firstBlock: number): number {
    return this.#run(keys, firstBlock).length
  }

  reserve(keys: BlockKeys, firstBlock: number): HistoryReservation | null {
    if (this.#closed !== null) return null
    this.#expireLeases()
    const ids = this.#run(keys, firstBlock)
    if (ids.length === 0) return null
    const lease = this.#leases.open(ids, this.#options.clock.now())
    if (lease === null) return null
    for (let index = ids.length - 1; index >= 0; index -= 1) this.#store.touch(ids[index]!)
    return { lease, blockCount: ids.length }
  }

  async restore(lease: HistoryLease, destinations: Uint32Array): Promise<HistoryRestore> {
    this.#expireLeases()
    const ids = this.#leases.startReading(lease)
    if (ids === null) return { kind: 'lease-gone' }
    try {
      if (destinations.length > ids.length) {
        throw new RangeError(
          `${destinations.length} destinations for ${ids.length} reserved blocks`,
        )
      }
      return await this.#directions.during('receive', () => this.#restore(ids, destinations))
    } finally {
      this.#leases.endReading(lease)
    }
  }

  release(lease: HistoryLease): void {
    this.#leases.release(lease)
  }

  offer({ keys, blockIds }: HistoryOffer): Promise<void> | null {
    const blockCount = blockKeyCount(keys)
    if (blockIds.length !== blockCount) {
      throw new RangeError(`${blockIds.length} blocks for ${blockCount} keys`)
    }
    if (!this.isEnabled || this.#closed !== null) return null
    return this.#intake.offer(keyWords(keys), blockIds)
  }

  counters(): HistoryCounters {
    return this.#counts.snapshot()
  }

  gauges(): HistoryGauges {
    const { sizes, copies, deviceMemory } = this.#options
    const deviceBlocks = this.#store.deviceEntryCount
    return {
      deviceMemory,
      deviceBlocks,
      hostBlocks: this.#store.entryCount - deviceBlocks,
      deviceBlockCapacity: sizes.deviceBlockCapacity,
      hostBlockCapacity: sizes.hostBlockCapacity,
      deviceBytesReserved: copies.reservedBytes('device'),
      hostBytesReserved: copies.reservedBytes('host'),
      leasesOpen: this.#leases.count,
      slotsQuarantined: this.#copies.overdueSlotCount,
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    const { bounds, copies, logger } = this.#options
    await this.#intake.close()
    const isDrained = await this.#copies.drain(bounds.copyDeadlineMs)
    this.#leases.releaseAll()
    if (isDrained) copies.close()
    else logger.error('history: closed with copies that have no end; their memory stays')
  }

  async #restore(ids: Uint32Array, destinations: Uint32Array): Promise<HistoryRestore> {
    const { regionSizes, bounds, logger } = this.#options
    const blocks = Array.from(ids, (id) => {
      const slot = this.#store.deviceSlotOf(id)
      return slot === noSlot
        ? ({ tier: 'host', slot: this.#store.hostSlotOf(id) } as const)
        : ({ tier: 'device', slot } as const)
    })
    const batchSizeBytesMax = bounds.restoreBatchSizeBytesMax
    const plan = planRestore({ blocks, destinations, regionSizes, batchSizeBytesMax })
    const { deviceBlockCount, hostBlockCount } = plan
    try {
      await this.#copies.inTurn(plan.copies)
    } catch (cause) {
      this.#counts.add('historyFailedLoads')
      const error = asConnectorError(cause)
      logger.warn('history: a restore failed', { code: error.code, error: error.message })
      return { kind: 'failed', error }
    }
    const blockCount = deviceBlockCount + hostBlockCount
    this.#counts.add('historyHitBlocks', blockCount)
    this.#counts.add('historyDeviceHitBlocks', deviceBlockCount)
    this.#counts.add('historyHostHitBlocks', hostBlockCount)
    this.#counts.add('historyLoadedRequests')
    return { kind: 'restored', blockCount, deviceBlockCount }
  }

  /** Entries in a row from `firstBlock` on. */
  #run(keys: BlockKeys, firstBlock: number): Uint32Array {
    const words = keyWords(keys)
    const blockCount = blockKeyCount(keys)
    if (!Number.isInteger(firstBlock) || firstBlock < 0) {
      throw new RangeError(`firstBlock: ${firstBlock} is no non-negative integer`)
    }
    const ids = new Uint32Array(Math.max(0, blockCount - firstBlock))
    let length = 0
    for (; length < ids.length; length += 1) {
      const id = this.#store.find(words, firstBlock + length)
      if (id === noEntry) break
      ids[length] = id
    }
    return ids.subarray(0, length)
  }

  #expireLeases(): void {
    this.#counts.add('historyLeasesExpired', this.#leases.expire(this.#options.clock.now()))
  }
}

function asConnectorError(error: unknown): AnyConnectorError {
  if (ConnectorError.isInstance(error)) return error
  const status = error instanceof Error ? error.message : String(error)
  const details = { operation: 'restore', peer: 'history', status }
  const message = `history could not be restored: ${status}`
  const wrapped = new ConnectorError('ERR_KV_TRANSFER_FAILED', message, details, { cause: error })
  return wrapped as AnyConnectorError
}
