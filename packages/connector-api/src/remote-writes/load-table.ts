/**
 * The loads of one consumer: carries out what the load machine decides over the parts that producer ranks
 * write. All events arrive on the engine's thread and run to their end. Owned by consumer-worker.ts; it
 * never touches a byte: the producer writes.
 */
import {
  ConnectorError,
  EqualTimers,
  instantPlus,
  limits,
  type AnyConnectorError,
  type EngineId,
  type Instant,
  type RequestId,
} from '../index.ts'
import {
  LoadResults,
  limitExceeded,
  matchingRanks,
  quarantineError,
  stepLoad,
  type BlockFinisher,
  type LoadEffect,
  type LoadEvent,
  type LoadOutcome,
} from '../protocol/index.ts'
import {
  blocksOf,
  orderError,
  runOf,
  sampleOf,
  sourceOf,
  type LoadOrder,
  type LoadRecord,
  type PartRecord,
} from './load-record.ts'
import { writeLimits } from './limits.ts'
import { PartTable, type PartTableOptions } from './part-table.ts'
import type { WriteCounters } from './write-counters.ts'
import { isRegistrationOver } from './registration-state.ts'

export interface LoadTableOptions extends Omit<PartTableOptions, 'onEnd' | 'onNews' | 'onDoubt'> {
  readonly counters: WriteCounters
  readonly finisher: BlockFinisher
  readonly registrationTimeoutMs: number
  /** A load began or ended. */
  readonly onChange: () => void
}

export class LoadTable {
  /** What ended loads leave for the engine to fetch. */
  readonly results: LoadResults
  readonly parts: PartTable
  readonly #init: LoadTableOptions
  readonly #loads = new Map<RequestId, LoadRecord>()
  readonly #deadlines: EqualTimers
  /** By producer: when it was last at work, or the last of its loads ended, or the first began. */
  readonly #progressAt = new Map<EngineId, Instant>()
  /** Loaded, and their measurements are not complete. */
  readonly #unsampled = new Map<LoadRecord, () => void>()
  #stopError: AnyConnectorError | null = null
  #quarantinedBlockCount = 0
  #isClosed = false

  constructor(init: LoadTableOptions) {
    this.#init = init
    this.results = new LoadResults(init.components, init.counters)
    const { clock, metrics } = init.components
    this.#deadlines = new EqualTimers(clock, init.registrationTimeoutMs)
    this.parts = new PartTable({
      ...init,
      onEnd: (part) => this.#partEnd(part),
      onNews: ({ load }) => this.#newsEnd(load),
      onDoubt: (part, isDoubtful) => {
        this.#doubt(part, isDoubtful)
        metrics.set('kv_blocks_quarantined', this.#quarantinedBlockCount)
      },
    })
  }

  get openCount(): number {
    return this.#loads.size
  }

  get stopError(): AnyConnectorError | null {
    return this.#stopError
  }

  /** Blocks that a producer which can't be reached may still write into. */
  get quarantinedBlockCount(): number {
    return this.#quarantinedBlockCount
  }

  /** Loads from this producer are open, none has ended for a while, and it is at no work. */
  isStuck(engineId: EngineId): boolean {
    const progressAt = this.#progressAt.get(engineId)
    if (progressAt === undefined) return false
    return this.#init.components.clock.now() >= instantPlus(progressAt, writeLimits.roomStallMs)
  }

  /** It computes for somebody: whoever waits there for room gets it. */
  noteWork(engineId: EngineId): void {
    if (this.#progressAt.has(engineId)) {
      this.#progressAt.set(engineId, this.#init.components.clock.now())
    }
  }

  /** Takes a load on; its producer ranks are asked as soon as they can be reached. */
  start(order: LoadOrder): void {
    const error = this.#refusal(order)
    if (error !== null) {
      this.fail(order, error)
      for (const rank of this.#ranksOf(order)) this.#init.onRelease(order, rank)
      return
    }
    const { clock } = this.#init.components
    const ranks = this.#ranksOf(order)
    const record: LoadRecord = {
      ...{ order, parts: [], bindAtMs: clock.now(), handshakeMs: 0, blockedUs: 0 },
      doubtfulCount: 0,
      deadline: this.#deadlines.start(() => this.#expire(record)),
      state: { kind: 'waiting', openCount: ranks.length, failure: null, isAborted: false },
    }
    for (const rank of ranks) record.parts.push(this.parts.add(record, rank))
    this.#loads.set(order.requestId, record)
    const { engineId } = order.producer
    if (!this.#progressAt.has(engineId)) this.#progressAt.set(engineId, clock.now())
    this.#init.counters.add('loadsStarted')
    this.#changed()
    for (const part of record.parts) this.parts.connect(part)
    record.blockedUs = (clock.now() - record.bindAtMs) * 1_000
  }

  /** Reports a load that never started. */
  fail(
    load: Pick<LoadOrder, 'requestId' | 'localBlockIds'> & Partial<LoadOrder>,
    error: AnyConnectorError,
  ): void {
    const { rank } = this.#init.speaker
    const { producer, transferId } = load
    const isKnown = producer !== undefined && transferId !== undefined
    const source = isKnown ? sourceOf({ producer, transferId }, rank, []) : { rank }
    this.results.add(reported(load), { kind: 'failed', error }, source)
  }

  abort(requestId: RequestId): void {
    const record = this.#loads.get(requestId)
    if (record === undefined) return
    const what = `request ${requestId}`
    const reason = new ConnectorError('ERR_KV_CLOSED', `${what} was given up`, { what })
    this.#dispatch(record, { kind: 'abort', reason })
  }

  /** Nothing is accepted any more, and what is open is withdrawn. */
  stop(error: AnyConnectorError): void {
    this.#stopError ??= error
    for (const record of [...this.#loads.values()]) {
      this.#dispatch(record, { kind: 'deadline', error })
    }
  }

  /** Leaves no timer. */
  close(): void {
    this.#isClosed = true
    this.#deadlines.close()
    for (const { deadline } of this.#unsampled.keys()) deadline?.stop()
    this.#loads.clear()
    this.#unsampled.clear()
    this.parts.close()
  }

  #changed(): void {
    this.#init.components.metrics.set('kv_loads_open', this.#loads.size)
    this.#init.onChange()
  }

  /** Its blocks are out of service while any of its parts is in doubt. */
  #doubt({ load }: PartRecord, isDoubtful: boolean): void {
    const before = load.doubtfulCount
    load.doubtfulCount += isDoubtful ? 1 : -1
    const change = Number(load.doubtfulCount > 0) - Number(before > 0)
    this.#quarantinedBlockCount += change * blocksOf(load.order).length
  }

  #noteProgress(engineId: EngineId): void {
    for (const { order } of this.#loads.values()) {
      if (order.producer.engineId !== engineId) continue
      this.#progressAt.set(engineId, this.#init.components.clock.now())
      return
    }
    this.#progressAt.delete(engineId)
  }

  #ranksOf({ producer }: LoadOrder): number[] {
    const { rank, facts } = this.#init.speaker
    return matchingRanks(rank, facts.tpSize, producer.tpSize)
  }

  #refusal(order: LoadOrder): AnyConnectorError | null {
    if (this.#stopError !== null) return this.#stopError
    if (this.#loads.size >= limits.requestCountMax) {
      return limitExceeded('requestCountMax', this.#loads.size + 1, limits.requestCountMax)
    }
    const { caches } = this.#init.finisher
    return (
      orderError(order, caches) ?? quarantineError(this.quarantinedBlockCount, caches.blockCount)
    )
  }

  #expire(record: LoadRecord): void {
    const { registrationTimeoutMs: deadlineMs } = this.#init
    const what = `blocks from ${record.order.producer.engineId}`
    const message = `${what} did not come in time`
    const error = new ConnectorError('ERR_KV_DEADLINE', message, { what, deadlineMs })
    this.#dispatch(record, { kind: 'deadline', error })
  }

  #partEnd({ load, state }: PartRecord): void {
    const event: LoadEvent =
      state.kind === 'failed' ? { kind: 'part-failed', error: state.error } : { kind: 'part-done' }
    this.#dispatch(load, event)
  }

  #dispatch(record: LoadRecord, event: LoadEvent): void {
    const now = this.#init.components.clock.now()
    const { state, effects } = stepLoad(record.state, event, now, undefined)
    record.state = state
    for (const effect of effects) this.#perform(record, effect)
  }

  #perform(record: LoadRecord, effect: LoadEffect): void {
    switch (effect.kind) {
      case 'end-parts':
        for (const part of record.parts) {
          if (isRegistrationOver(part.state)) continue
          this.parts.dispatch(part, { kind: 'withdraw', reason: effect.reason })
        }
        return
      case 'finish':
        return this.#finish(record)
      case 'report':
        return this.#report(record, effect.outcome)
    }
  }

  #finish(record: LoadRecord): void {
    const { finisher } = this.#init
    const { facts } = record.parts[0]!.link!
    const work = finisher.finish(runOf(record.order, finisher.caches.blockTokens), facts)
    if (work === null) this.#dispatch(record, { kind: 'finish-end', error: null })
    else void work.then((error) => this.#dispatch(record, { kind: 'finish-end', error }))
  }

  #report(record: LoadRecord, outcome: LoadOutcome): void {
    const { order, parts } = record
    const completeAtMs = this.#init.components.clock.now()
    record.deadline?.stop()
    this.#loads.delete(order.requestId)
    this.#noteProgress(order.producer.engineId)
    const { rank } = this.#init.speaker
    const source = outcome.kind === 'failed' ? sourceOf(order, rank, parts) : {}
    this.results.add(reported(order), outcome, source)
    this.#changed()
    if (outcome.kind === 'loaded') this.#sample(record, completeAtMs)
    else parts.forEach((part) => this.parts.forget(part))
  }

  /** The measurements may come after the notification: they get a moment. */
  #sample(record: LoadRecord, completeAtMs: number): void {
    const { clock } = this.#init.components
    const add = (): void => {
      record.deadline?.stop()
      this.#unsampled.delete(record)
      this.results.addSample(sampleOf(record, completeAtMs))
      record.parts.forEach((part) => this.parts.forget(part))
    }
    this.#unsampled.set(record, add)
    // Its last work may end after the worker did: no news come any more.
    if (this.#isClosed) return add()
    record.deadline = clock.after(writeLimits.timesWaitMs, add)
    this.#newsEnd(record)
  }

  #newsEnd(record: LoadRecord): void {
    if (record.parts.every(({ news }) => news !== null)) this.#unsampled.get(record)?.()
  }
}

function reported({ requestId, localBlockIds }: Pick<LoadOrder, 'requestId' | 'localBlockIds'>) {
  return { requestId, blockIds: localBlockIds }
}
