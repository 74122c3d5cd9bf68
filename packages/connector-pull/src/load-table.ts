/**
 * The loads of one consumer: carries out what the load machine decides over the READs of which each is made,
 * one from each producer rank that has some of this rank's heads. All events arrive on the engine's thread and
 * run to their end. Owned by consumer-worker.ts.
 */
import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type RequestId,
} from '@kvferry/connector-api'
import {
  BlockFinisher,
  limitExceeded,
  LoadResults,
  quarantineError,
  stepLoad,
  type HostStaging,
  type LoadEffect,
  type LoadEvent,
  type LoadOutcome,
} from '@kvferry/connector-api/protocol'
import {
  blocksOf,
  orderError,
  reported,
  runOf,
  sampleOf,
  sourceOf,
  type LoadOrder,
  type LoadRecord,
  type ReadRecord,
} from './load-record.ts'
import { ReadTable, type ReadTableOptions } from './read-table.ts'

export interface LoadTableOptions extends Omit<ReadTableOptions, 'onEnd' | 'onOverdueChange'> {
  /** The cache is a copy of the engine's, which what was read goes into; null without staging. */
  readonly staging: HostStaging | null
  /** Ranks of a producer of that size from which this rank reads. */
  readonly ranksOf: (tpSize: number) => readonly number[]
}

export class LoadTable {
  /** What ended loads leave for the engine to fetch. */
  readonly results: LoadResults
  readonly reads: ReadTable
  readonly #init: LoadTableOptions
  readonly #loads = new Map<RequestId, LoadRecord>()
  readonly #finisher: BlockFinisher
  /** Why nothing is accepted any more; null while open. */
  #stopError: AnyConnectorError | null = null
  #quarantinedBlockCount = 0

  constructor(init: LoadTableOptions) {
    const { components, counters, cache, staging } = init
    this.#init = init
    this.#finisher = new BlockFinisher(cache.caches, components.kernels, staging)
    this.results = new LoadResults(components, counters)
    this.reads = new ReadTable({
      ...init,
      onEnd: (read) => this.#readEnd(read),
      onOverdueChange: (read, change) => this.#overdue(read.load, change),
    })
  }

  /** Blocks that a READ past its deadline may still write into. */
  get quarantinedBlockCount(): number {
    return this.#quarantinedBlockCount
  }

  get stopError(): AnyConnectorError | null {
    return this.#stopError
  }

  /** Takes a load on. Its READs leave with `flush`, or when their connections are ready. */
  start(order: LoadOrder): void {
    const { components, counters, releases, peers, ranksOf } = this.#init
    const ranks = ranksOf(order.handoff.tpSize)
    const error = this.#refusal(order)
    if (error !== null) {
      this.fail(order, error)
      // The producer need not wait for a load that never starts.
      if (this.#stopError === null) ranks.forEach((rank) => releases.add(peers, order, rank))
      return
    }
    const record: LoadRecord = {
      order,
      reads: [],
      bindAtMs: components.clock.now(),
      handshakeMs: 0,
      startUs: 0,
      overdueCount: 0,
      state: { kind: 'waiting', openCount: ranks.length, failure: null, isAborted: false },
    }
    for (const rank of ranks) record.reads.push(this.reads.create(record, rank))
    this.#loads.set(order.requestId, record)
    counters.add('loadsStarted')
    for (const read of record.reads) this.reads.connect(read)
    record.startUs = (components.clock.now() - record.bindAtMs) * 1_000
    components.metrics.set('kv_loads_open', this.#loads.size)
  }

  /** Reports a load that never started. */
  fail(
    load: Pick<LoadOrder, 'requestId' | 'localBlockIds'> & Partial<Pick<LoadOrder, 'handoff'>>,
    error: AnyConnectorError,
  ): void {
    const { leases, tpRank } = this.#init
    const { handoff } = load
    leases.end(load.requestId)
    const source = handoff === undefined ? { rank: tpRank } : sourceOf({ handoff }, tpRank, [])
    this.results.add(reported(load), { kind: 'failed', error }, source)
  }

  abort(requestId: RequestId): void {
    const record = this.#loads.get(requestId)
    if (record === undefined) return
    this.#init.leases.end(requestId)
    const what = `request ${requestId}`
    const reason = new ConnectorError('ERR_KV_CLOSED', `${what} was given up`, { what })
    this.#dispatch(record, { kind: 'abort', reason })
  }

  /** Posts every READ that became ready since the last call, in one call to the agent. */
  flush(): void {
    this.reads.flush()
  }

  /** Resolves when no kernel is at work in our blocks. */
  settle(): Promise<void> {
    return this.#finisher.settle()
  }

  /** Nothing is accepted any more, and what waits for a connection fails. */
  stop(error: AnyConnectorError): void {
    this.#stopError ??= error
    this.reads.stop(this.#stopError)
  }

  /** The agent is broken: open READs are in doubt for good, and their blocks stay in quarantine. */
  onBroken(error: AnyConnectorError): void {
    this.stop(error)
    this.reads.onBroken()
  }

  #refusal(order: LoadOrder): AnyConnectorError | null {
    if (this.#stopError !== null) return this.#stopError
    const { caches } = this.#init.cache
    if (this.#loads.size >= limits.requestCountMax) {
      return limitExceeded('requestCountMax', this.#loads.size + 1, limits.requestCountMax)
    }
    return (
      orderError(order, caches) ?? quarantineError(this.quarantinedBlockCount, caches.blockCount)
    )
  }

  #readEnd({ load, state }: ReadRecord): void {
    if (state.kind !== 'ended') return
    const { outcome } = state
    this.#dispatch(
      load,
      // An aborted READ has its verdict from the load, which has given it up.
      outcome.kind === 'failed'
        ? { kind: 'part-failed', error: outcome.error }
        : { kind: 'part-done' },
    )
  }

  /** One of its READs is past its deadline, or has ended after it. */
  #overdue(load: LoadRecord, change: 1 | -1): void {
    const wasInQuarantine = load.overdueCount > 0
    load.overdueCount += change
    const isInQuarantine = load.overdueCount > 0
    // A load is counted with the first of its READs, however many are late.
    if (isInQuarantine && !wasInQuarantine) this.#init.counters.add('loadsOverdue')
    const blockCount = blocksOf(load.order).length
    this.#quarantinedBlockCount += (Number(isInQuarantine) - Number(wasInQuarantine)) * blockCount
    this.#init.components.metrics.set('kv_blocks_quarantined', this.#quarantinedBlockCount)
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
        for (const read of record.reads) this.reads.abort(read)
        return
      case 'finish':
        return this.#finish(record)
      case 'report':
        return this.#report(record, effect.outcome)
    }
  }

  #finish(record: LoadRecord): void {
    const { facts } = record.reads[0]!.link!
    const { blockTokens } = this.#init.cache.caches
    const work = this.#finisher.finish(runOf(record.order, blockTokens), facts)
    if (work === null) this.#dispatch(record, { kind: 'finish-end', error: null })
    else void work.then((error) => this.#dispatch(record, { kind: 'finish-end', error }))
  }

  #report(record: LoadRecord, outcome: LoadOutcome): void {
    const { order, reads } = record
    const { components, leases, tpRank } = this.#init
    const completeAtMs = components.clock.now()
    this.#loads.delete(order.requestId)
    leases.end(order.requestId)
    const source = outcome.kind === 'failed' ? sourceOf(order, tpRank, reads) : {}
    this.results.add(reported(order), outcome, source)
    components.metrics.set('kv_loads_open', this.#loads.size)
    if (outcome.kind === 'aborted') return
    const isInline = this.#init.options.posting === 'inline'
    this.results.addSample(sampleOf(record, completeAtMs, isInline))
  }
}
