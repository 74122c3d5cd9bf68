/**
 * How finished requests get into history: which of their blocks may, what is remembered of the others, and
 * the one writer.
 */
import type { Clock, Logger, Random, TransferDirections } from '@kvferry/connector-api'
import type { TrackedCopies } from '../copies/tracked-copies.ts'
import type { HistoryCounts } from '../counts.ts'
import type { HistorySizes } from '../history-sizes.ts'
import type { HistoryBounds } from '../limits.ts'
import type { HistoryStore } from '../store/history-store.ts'
import { noEntry } from '../store/key-table.ts'
import type { KeyWords } from '../store/key-words.ts'
import { Probation } from '../store/probation.ts'
import { noSlot } from '../store/slot-pool.ts'
import { admit } from './admission.ts'
import type { HistoryPolicy } from './history-policy.ts'
import { HistoryWriter, type WriterListener, type WriterRequest } from './history-writer.ts'
import { Staging } from './staging.ts'
import type { WriterDrop } from './writer-state.ts'

export interface IntakeComponents {
  readonly sizes: HistorySizes
  readonly policy: HistoryPolicy
  readonly bounds: HistoryBounds
  readonly store: HistoryStore
  readonly counts: HistoryCounts
  readonly copies: TrackedCopies
  readonly directions: TransferDirections
  readonly regionCount: number
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** What has ended by time pins nothing. */
  expireLeases(): void
}

const droppedBy: Readonly<Record<WriterDrop, Parameters<HistoryCounts['add']>[0]>> = {
  deadline: 'historyDeadlineDroppedBlocks',
  closing: 'historyClosingDroppedBlocks',
  readers: 'historyCapacityLimitedByReaders',
}

export class HistoryIntake {
  readonly #components: IntakeComponents
  readonly #store: HistoryStore
  readonly #counts: HistoryCounts
  readonly #probation: Probation
  readonly #writer: HistoryWriter

  constructor(components: IntakeComponents) {
    const { store, counts, policy, bounds, random, ...rest } = components
    this.#components = components
    this.#store = store
    this.#counts = counts
    const keyCountMax = Math.min(bounds.probationKeyCountMax, 2 * store.capacity)
    this.#probation = new Probation(policy.usesProbation ? keyCountMax : 0, random)
    this.#writer = new HistoryWriter({
      ...rest,
      staging: new Staging(store, policy, {
        onDemoted: () => counts.add('historyDemotions'),
        onEvicted: () => counts.add('historyEvictedBlocks'),
      }),
      context: { ...bounds, chunkLengthMax: () => this.#chunkLengthMax() },
      listener: this.#writerListener(),
      copyDeadlineMs: bounds.copyDeadlineMs,
    })
  }

  /** @param blockIds one for each key of `words`. */
  offer(words: KeyWords, blockIds: Uint32Array): Promise<void> | null {
    const blockCount = blockIds.length
    const candidates = this.#admit(words, blockCount)
    this.#observe(words, blockCount)
    if (candidates.length === 0) return null
    if (this.#writer.isBusy) {
      this.#counts.add('historySkippedRequests')
      return null
    }
    return this.#writer.write({ words, blockCount, blockIds, candidates })
  }

  close(): Promise<void> {
    return this.#writer.close()
  }

  #admit(words: KeyWords, blockCount: number): readonly number[] {
    const { policy } = this.#components
    const request = {
      blockCount,
      isStored: (index: number) => this.#store.find(words, index) !== noEntry,
      isSeen: (index: number) => this.#probation.has(words, index),
    }
    const { capacity, entryCount } = this.#store
    const candidateCountMax = this.#candidateCountMax()
    const admission = admit(policy, request, { capacity, entryCount, candidateCountMax })
    this.#counts.add('historyAdmissionReusedBlocks', admission.reused)
    this.#counts.add('historyAdmissionRejectedBlocks', admission.rejected)
    this.#counts.add('historyCapacityLimitedByRequest', admission.limitedByRequest)
    this.#counts.add('historyCapacityLimitedByTiers', admission.limitedByCapacity)
    return admission.candidates
  }

  /** The whole request, tail first, so that its head ends up newest, stored or remembered. */
  #observe(words: KeyWords, blockCount: number): void {
    for (let index = blockCount - 1; index >= 0; index -= 1) {
      const id = this.#store.find(words, index)
      if (id === noEntry) this.#probation.note(words, index)
      else {
        this.#store.touch(id)
        this.#probation.delete(words, index)
      }
    }
  }

  #candidateCountMax(): number {
    const { sizes, bounds } = this.#components
    const bytes = Math.floor(bounds.candidateSizeBytesMax / sizes.blockBytes)
    return Math.min(this.#store.capacity, Math.max(1, bytes))
  }

  #chunkLengthMax(): number {
    const { sizes, bounds } = this.#components
    const { deviceSlots, hostSlots } = this.#store
    const freeCount = (sizes.deviceBlockCapacity > 0 ? deviceSlots : hostSlots).freeCount
    const bytes = freeCount > 0 ? bounds.fillChunkSizeBytesMax : bounds.replaceChunkSizeBytesMax
    const blocks = Math.min(Math.floor(bytes / sizes.blockBytes), bounds.chunkBlockCountMax)
    return Math.max(1, freeCount > 0 ? Math.min(blocks, freeCount) : blocks)
  }

  #writerListener(): WriterListener {
    return {
      beforeStage: () => this.#components.expireLeases(),
      onMoved: ({ moves }) => this.#counts.add('historyHostWrittenBlocks', moves.length),
      onPublished: (request, stage, count) => {
        this.#counts.add('historySavedBlocks', count)
        if (count > 0) this.#counts.add('historySaveChunks')
        for (const { deviceSlot, hostSlot } of stage.blocks) {
          if (deviceSlot !== noSlot) this.#counts.add('historyDeviceWrittenBlocks')
          if (hostSlot !== noSlot) this.#counts.add('historyHostWrittenBlocks')
        }
        this.#touchStoredPrefix(request)
        for (const { position } of stage.blocks) this.#probation.delete(request.words, position)
      },
      onDropped: (reason, blockCount) => this.#counts.add(droppedBy[reason], blockCount),
      onFailed: () => this.#counts.add('historyFailures'),
    }
  }

  #touchStoredPrefix({ words, blockCount }: WriterRequest): void {
    for (let index = blockCount - 1; index >= 0; index -= 1) {
      const id = this.#store.find(words, index)
      if (id !== noEntry) this.#store.touch(id)
    }
  }
}
