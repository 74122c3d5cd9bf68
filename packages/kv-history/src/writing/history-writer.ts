/**
 * The writer's shell: performs what `stepWriter` decides. One request at a time, chunk after chunk; a chunk
 * is staged, its room made, its blocks copied and published, all while the connector keeps its sending
 * direction for it. What fails is counted and logged, and never anybody's error.
 */
import {
  assertNever,
  InvariantError,
  type Clock,
  type Logger,
  type TransferDirections,
} from '@kvferry/connector-api'
import type { TrackedCopies } from '../copies/tracked-copies.ts'
import type { KeyWords } from '../store/key-words.ts'
import { blockCopiesOf, moveCopies } from './copy-plan.ts'
import type { Stage, Staging } from './staging.ts'
import {
  stepWriter,
  type WriterContext,
  type WriterDrop,
  type WriterEffect,
  type WriterEvent,
  type WriterState,
} from './writer-state.ts'

export interface WriterRequest {
  /** Keys of the whole request. */
  readonly words: KeyWords
  readonly blockCount: number
  readonly blockIds: Uint32Array
  /** Positions to copy, ascending, at least one. */
  readonly candidates: readonly number[]
}

/** What the rest of history does about the writer's progress. */
export interface WriterListener {
  /** Before room is made: leases that have ended pin nothing. */
  beforeStage(): void
  onMoved(stage: Stage): void
  onPublished(request: WriterRequest, stage: Stage, publishedCount: number): void
  onDropped(reason: WriterDrop, blockCount: number): void
  onFailed(): void
}

export interface WriterComponents {
  readonly staging: Staging
  readonly copies: TrackedCopies
  readonly clock: Clock
  readonly logger: Logger
  readonly directions: TransferDirections
  readonly context: WriterContext
  readonly listener: WriterListener
  readonly regionCount: number
  readonly copyDeadlineMs: number
}

interface Job {
  readonly request: WriterRequest
  /** Index of the first candidate that is not staged yet. */
  next: number
  isOver: boolean
  readonly end: () => void
}

export class HistoryWriter {
  readonly #components: WriterComponents
  #state: WriterState = { kind: 'idle' }
  #job: Job | null = null
  #isClosing = false
  #ended: Promise<void> = Promise.resolve()

  constructor(components: WriterComponents) {
    this.#components = components
  }

  get isBusy(): boolean {
    return this.#state.kind !== 'idle'
  }

  /** Only while it isn't busy. Resolves when the request's blocks are not read any more. */
  write(request: WriterRequest): Promise<void> {
    this.#ended = new Promise((end) => {
      this.#job = { request, next: 0, isOver: false, end }
    })
    this.#step({ kind: 'offered', candidateCount: request.candidates.length })
    return this.#ended
  }

  /** Starts no further chunk. Resolves when the request at hand has ended. */
  close(): Promise<void> {
    this.#isClosing = true
    return this.#ended
  }

  #step(event: WriterEvent): void {
    const { clock, context } = this.#components
    const { state, effects } = stepWriter(this.#state, event, clock.now(), context)
    this.#state = state
    for (const effect of effects) this.#perform(effect)
  }

  #perform(effect: WriterEffect): void {
    const { clock, listener } = this.#components
    switch (effect.kind) {
      case 'check':
        return this.#check()
      case 'check-later':
        clock.after(effect.delayMs, () => this.#check())
        return
      case 'copy-chunk':
        void this.#copyChunk(this.#job!, effect.blockCount)
        return
      case 'count-dropped':
        return listener.onDropped(effect.reason, effect.blockCount)
      case 'count-failure':
        return listener.onFailed()
      case 'end-job':
        this.#job!.isOver = true
        return this.#job!.end()
      default:
        return assertNever(effect)
    }
  }

  #check(): void {
    const isBusy = this.#components.directions.isBusy()
    this.#step({ kind: 'checked', isBusy, isClosing: this.#isClosing })
  }

  async #copyChunk(job: Job, blockCount: number): Promise<void> {
    const { clock, logger, directions, copyDeadlineMs } = this.#components
    const positions = job.request.candidates.slice(job.next, job.next + blockCount)
    job.next += blockCount
    const overdue = clock.after(copyDeadlineMs, () => this.#step({ kind: 'chunk-overdue' }))
    let event: WriterEvent
    try {
      const unplaced = await directions.during('send', () => this.#writeChunk(job, positions))
      event = { kind: 'chunk-done', unplaced }
    } catch (error) {
      // Ours, not the copies': nothing that follows could be trusted.
      if (error instanceof InvariantError) throw error
      const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
      logger.warn('history: a chunk was not kept', { blocks: positions.length, error: stack })
      event = { kind: 'chunk-failed' }
    } finally {
      overdue.stop()
    }
    this.#step(event)
  }

  /** @returns how many of the positions got no room. */
  async #writeChunk(job: Job, positions: readonly number[]): Promise<number> {
    const { staging, copies, listener, regionCount } = this.#components
    const { request } = job
    if (job.isOver) return positions.length
    listener.beforeStage()
    let stage = staging.stage({ ...request, positions })
    try {
      if (stage.moves.length > 0) {
        await copies.together(moveCopies(stage, regionCount))
        listener.onMoved(stage)
        stage = staging.settleMoves(stage)
      }
      // Given up meanwhile: the engine's blocks belong to somebody else.
      if (!job.isOver && stage.blocks.length > 0) {
        await copies.together(blockCopiesOf(stage, request.blockIds, regionCount))
      }
    } catch (error) {
      staging.abandon(stage)
      throw error
    }
    if (job.isOver) staging.abandon(stage)
    else listener.onPublished(request, stage, staging.publish(stage))
    return stage.unplacedCount
  }
}
