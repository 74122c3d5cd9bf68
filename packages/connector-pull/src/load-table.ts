/**
 * The loads of one consumer: carries them out as load-state.ts decides. All events arrive on the engine's
 * thread and run to their end; READs that became ready in one turn leave in one post. Owned by
 * consumer-worker.ts.
 */
import {
  limits,
  type AnyConnectorError,
  type RequestId,
  type TransferCompletion,
  type TransferHandle,
  type TransferTimes,
  type WorkerComponents,
} from '@kvferry/connector-api'
import {
  limitExceeded,
  type HostStaging,
  LoadResults,
  type LoadOutcome,
  quarantineError,
  recordTransfer,
} from '@kvferry/connector-api/protocol'
import { BlockReader } from './block-reader.ts'
import type { PeerLink } from './connection-state.ts'
import { askForLease } from './lease-client.ts'
import {
  orderError,
  reported,
  sampleOf,
  type FinishRead,
  type LoadOrder,
  type LoadRecord,
} from './load-record.ts'
import { stepLoad, type LoadEffect, type LoadEvent } from './load-state.ts'
import type { PeerConnections, PeerKey } from './peer-connections.ts'
import type { OverdueReads } from './overdue-reads.ts'
import { PostQueue, type PostQueueOptions } from './post-queue.ts'
import type { PullCounters } from './pull-counters.ts'
import { quarantineChange } from './quarantine.ts'
import type { LocalCache } from './read-plan.ts'
import type { ReleaseQueue } from './release-queue.ts'

export interface LoadTableOptions extends Omit<PostQueueOptions, 'reader'> {
  readonly cache: LocalCache
  /** The cache is a copy of the engine's, which what was read goes into; null without staging. */
  readonly staging: HostStaging | null
  readonly peers: PeerConnections
  readonly releases: ReleaseQueue
  readonly overdue: OverdueReads
}

export class LoadTable {
  /** What ended loads leave for the engine to fetch. */
  readonly results: LoadResults
  readonly #init: LoadTableOptions
  readonly #components: WorkerComponents
  readonly #counters: PullCounters
  readonly #loads = new Map<RequestId, LoadRecord>()
  /** Index into `#loads` by the transfer that a load waits for. */
  readonly #reads = new Map<TransferHandle, LoadRecord>()
  readonly #reader: BlockReader
  readonly #posts: PostQueue
  /** Why nothing is accepted any more; null while open. */
  #stopError: AnyConnectorError | null = null
  #quarantinedBlockCount = 0

  constructor(init: LoadTableOptions) {
    this.#init = init
    this.#components = init.components
    this.#counters = init.counters
    this.#reader = new BlockReader(init.components, init.cache, init.staging)
    this.#posts = new PostQueue({ ...init, reader: this.#reader })
    this.results = new LoadResults(init.components, init.counters)
  }

  /** Blocks that a READ past its deadline may still write into. */
  get quarantinedBlockCount(): number {
    return this.#quarantinedBlockCount
  }

  get openReadCount(): number {
    return this.#reads.size
  }

  get stopError(): AnyConnectorError | null {
    return this.#stopError
  }

  hasOpenReads(key: PeerKey): boolean {
    return [...this.#reads.values()].some(({ peer }) => peer === key)
  }

  /** Takes a load on. Its READ leaves with `flush`, or when its connection is ready. */
  start(order: LoadOrder, loadId: number): void {
    const error = this.#refusal(order)
    if (error !== null) {
      this.fail(order, error)
      // The producer need not wait for a load that never starts.
      if (this.#stopError === null) {
        this.#init.releases.add(this.#init.peers, order.handoff, loadId)
      }
      return
    }
    const record: LoadRecord = {
      ...{ order, loadId, peer: null, link: null, finish: null },
      ...{ bindAtMs: this.#components.clock.now(), handshakeMs: 0 },
      ...{ handedOverAtMs: null, blockedUs: 0 },
      state: { kind: 'connecting' },
    }
    this.#loads.set(order.requestId, record)
    this.#counters.add('loadsStarted')
    this.#connect(record)
  }

  /** Reports a load that never started. */
  fail(load: Pick<LoadOrder, 'requestId' | 'localBlockIds'>, error: AnyConnectorError): void {
    this.#init.leases.end(load.requestId)
    this.results.add(reported(load), { kind: 'failed', error })
  }

  abort(requestId: RequestId): void {
    const record = this.#loads.get(requestId)
    if (record === undefined) return
    this.#init.leases.end(requestId)
    this.#dispatch(record, { kind: 'abort' })
  }

  /** Posts every READ that became ready since the last call, in one call to the agent. */
  flush(): void {
    for (const { record, event } of this.#posts.drain()) {
      if (event.kind === 'post-end') this.#reads.set(event.transfer, record)
      this.#dispatch(record, event)
    }
  }

  onReady(key: PeerKey, link: PeerLink): void {
    this.#forWaiting(key, (record) => this.#ready(record, link))
  }

  onFailed(key: PeerKey, error: AnyConnectorError): void {
    this.#forWaiting(key, (record) => this.#dispatch(record, { kind: 'peer-fail', error }))
  }

  onForgotten(key: PeerKey): void {
    this.#forWaiting(key, (record) => this.#connect(record))
  }

  onCompletions(completions: readonly TransferCompletion[]): void {
    for (const completion of completions) {
      const record = this.#reads.get(completion.transfer)
      if (record !== undefined) this.#complete(record, completion)
    }
    this.flush()
  }

  settle(): Promise<void> {
    return this.#reader.settle()
  }

  /** Nothing is accepted any more, and what waits for a connection fails. */
  stop(error: AnyConnectorError): void {
    this.#stopError ??= error
    for (const record of [...this.#loads.values()]) {
      const { kind } = record.state
      if (kind !== 'connecting' && kind !== 'requesting') continue
      this.#dispatch(record, { kind: 'peer-fail', error: this.#stopError })
    }
  }

  /** The agent is broken: open READs are in doubt for good, and their blocks stay in quarantine. */
  onBroken(error: AnyConnectorError): void {
    this.stop(error)
    for (const record of [...this.#loads.values()]) this.#overdue(record)
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

  #connect(record: LoadRecord): void {
    const answer = this.#init.peers.linkTo(record.order.handoff.remote)
    if (answer.kind === 'unavailable') {
      this.#dispatch(record, { kind: 'peer-fail', error: answer.error })
      return
    }
    record.peer = answer.key
    if (answer.kind === 'ready') this.#ready(record, answer.link)
  }

  #ready(record: LoadRecord, link: PeerLink): void {
    record.link = link
    this.#dispatch(record, { kind: link.isStaged ? 'peer-ready-staged' : 'peer-ready' })
  }

  #forWaiting(key: PeerKey, perform: (record: LoadRecord) => void): void {
    for (const record of [...this.#loads.values()]) {
      if (record.peer !== key || record.state.kind !== 'connecting') continue
      record.handshakeMs = this.#components.clock.now() - record.bindAtMs
      perform(record)
    }
    this.flush()
  }

  #complete(record: LoadRecord, completion: TransferCompletion): void {
    const { metrics } = this.#components
    if (completion.status === 'overdue') {
      this.#overdue(record)
      return
    }
    this.#reads.delete(completion.transfer)
    this.#init.overdue.end(record)
    recordTransfer(metrics, 'read', completion)
    const { status, times } = completion
    if (status === 'failed') {
      this.#dispatch(record, { kind: 'transfer-fail', times, error: completion.error })
    } else if (record.finish === null) {
      this.#dispatch(record, { kind: 'transfer-done', times })
    } else {
      void this.#finish(record, record.finish, times)
    }
    metrics.set('kv_blocks_quarantined', this.quarantinedBlockCount)
    if (record.peer !== null) this.#init.peers.readEnd(record.peer, status === 'done')
  }

  /** The bytes have arrived; for the load's machine the READ ends once they are at their place. */
  async #finish(record: LoadRecord, finish: FinishRead, times: TransferTimes): Promise<void> {
    const error = await finish()
    if (error === null) this.#dispatch(record, { kind: 'transfer-done', times })
    else this.#dispatch(record, { kind: 'transfer-fail', times, error })
  }

  #overdue(record: LoadRecord): void {
    // A broken agent has put every open READ here already.
    const { kind } = record.state
    if (kind !== 'reading' && kind !== 'draining') return
    // Past its deadline the producer's blocks aren't held for it any longer than their lease lasts.
    this.#init.leases.end(record.order.requestId)
    this.#counters.add('loadsOverdue')
    this.#dispatch(record, { kind: 'transfer-overdue' })
    this.#init.overdue.add(record)
    this.#components.metrics.set('kv_blocks_quarantined', this.quarantinedBlockCount)
  }

  #dispatch(record: LoadRecord, event: LoadEvent): void {
    const now = this.#components.clock.now()
    const { state, effects } = stepLoad(record.state, event, now, undefined)
    this.#quarantinedBlockCount += quarantineChange(record, record.state, state)
    record.state = state
    for (const effect of effects) this.#perform(record, effect)
  }

  #perform(record: LoadRecord, effect: LoadEffect): void {
    switch (effect.kind) {
      case 'post':
        this.#posts.add(record)
        return
      case 'ask':
        void this.#ask(record)
        return
      case 'release':
        this.#init.releases.add(this.#init.peers, record.order.handoff, record.loadId)
        return
      case 'report':
        this.#report(record, effect.outcome)
        return
    }
  }

  async #ask(record: LoadRecord): Promise<void> {
    const { order, loadId, link } = record
    const { requestId, handoff } = order
    const load = { requestId, remoteId: handoff.remote.requestId, loadId }
    const event = await askForLease(this.#components.clock, link!.association, load)
    this.#dispatch(record, event)
    // A staging producer's grant lets a READ go.
    this.flush()
  }

  #report(record: LoadRecord, outcome: LoadOutcome): void {
    const { order, state } = record
    this.#loads.delete(order.requestId)
    this.#init.leases.end(order.requestId)
    this.results.add(reported(order), outcome)
    if (outcome.kind === 'aborted' || state.kind !== 'ended') return
    const isInline = this.#init.options.posting === 'inline'
    const completeAtMs = this.#components.clock.now()
    this.results.addSample(sampleOf(record, state.times, completeAtMs, isInline))
  }
}
