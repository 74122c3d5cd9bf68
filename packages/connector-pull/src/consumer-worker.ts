/**
 * The consumer's part of the worker half: carries out load orders as load-state.ts decides, and collects
 * what `getTransferResults` reports. All events (the step's metadata, agent completions, answers of the
 * side channel) arrive on the engine's thread and run to their end; READs that became ready in one turn
 * leave in one post. Owned by worker.ts.
 */
import {
  limits,
  type AnyConnectorError,
  type BlockTableHandle,
  type RequestId,
  type TransferCompletion,
  type TransferHandle,
  type WorkerComponents,
} from '@kvferry/connector-api'
import type { PeerLink } from './connection-state.ts'
import type { PeerFacts } from './facts.ts'
import { asConnectorError, closed, limitExceeded } from './failures.ts'
import { expiryError, forgeryError } from './handoff-check.ts'
import { askForLease } from './lease-client.ts'
import { orderError, outOfRange, sampleOf, type LoadRecord } from './load-record.ts'
import { LoadResults } from './load-results.ts'
import { stepLoad, type LoadEffect, type LoadEvent, type LoadOutcome } from './load-state.ts'
import type { Handoff, LoadOrder } from './metadata.ts'
import type { PullOptions } from './options.ts'
import { PeerConnections, type PeerKey } from './peer-connections.ts'
import type { PullCounters } from './pull-counters.ts'
import { quarantineError, quarantinedBlockCount } from './quarantine.ts'
import { recordOverdue, recordRead } from './read-metrics.ts'
import { postAll, readPost } from './read-post.ts'
import { ReleaseQueue } from './release-queue.ts'

export interface ConsumerOptions {
  readonly components: WorkerComponents
  readonly counters: PullCounters
  readonly options: PullOptions
  readonly facts: PeerFacts
  readonly table: BlockTableHandle
  /** Blocks of the pool. */
  readonly blockCount: number
  readonly tpRank: number
}

export class ConsumerWorker {
  /** What ended loads leave for the engine to fetch. */
  readonly results: LoadResults
  readonly #components: WorkerComponents
  readonly #counters: PullCounters
  readonly #options: PullOptions
  readonly #table: BlockTableHandle
  readonly #blockCount: number
  readonly #tpRank: number
  readonly #releases: ReleaseQueue
  readonly #peers: PeerConnections
  readonly #loads = new Map<RequestId, LoadRecord>()
  /** Index into `#loads` by the transfer that a load waits for. */
  readonly #reads = new Map<TransferHandle, LoadRecord>()
  #toPost: LoadRecord[] = []
  #nextLoadId = 0
  /** Why nothing is accepted any more; null while open. */
  #stopError: AnyConnectorError | null = null

  constructor(init: ConsumerOptions) {
    this.#components = init.components
    this.#counters = init.counters
    this.#options = init.options
    this.#table = init.table
    this.#blockCount = init.blockCount
    this.#tpRank = init.tpRank
    this.#releases = new ReleaseQueue(init.components, init.counters, init.tpRank)
    this.results = new LoadResults(init.components, init.counters)
    this.#peers = new PeerConnections({
      components: init.components,
      counters: init.counters,
      facts: init.facts,
      handshakeTimeoutMs: init.options.handshakeTimeoutMs,
      listener: {
        onReady: (key, link) => {
          this.#forWaiting(key, (record) => this.#ready(record, link))
          this.#releases.onReady(key, link)
        },
        onFailed: (key, error) => {
          this.#forWaiting(key, (record) => this.#dispatch(record, { kind: 'peer-fail', error }))
          this.#releases.onFailed(key)
        },
        onForgotten: (key) => {
          this.#forWaiting(key, (record) => this.#connect(record))
          this.#releases.onForgotten(this.#peers, key)
        },
        hasOpenReads: (key) => [...this.#reads.values()].some(({ peer }) => peer === key),
      },
    })
  }

  /** Blocks that a READ past its deadline may still write into. */
  get quarantinedBlockCount(): number {
    return quarantinedBlockCount(this.#loads.values())
  }

  /** Takes a load on. Its READ leaves with `flush`, or when its connection is ready. */
  load(order: LoadOrder): void {
    const error = this.#refusal(order)
    if (error !== null) {
      this.results.add(reported(order), { kind: 'failed', error })
      return
    }
    const record: LoadRecord = {
      order,
      loadId: this.#takeLoadId(),
      peer: null,
      bindAtMs: this.#components.clock.now(),
      handshakeMs: 0,
      link: null,
      state: { kind: 'connecting' },
    }
    this.#loads.set(order.requestId, record)
    this.#counters.add('loadsStarted')
    this.#connect(record)
  }

  /** Nothing is to be read: the producer may free. */
  release(handoff: Handoff): void {
    this.#releases.add(this.#peers, handoff, this.#takeLoadId())
  }

  abort(requestId: RequestId): void {
    const record = this.#loads.get(requestId)
    if (record !== undefined) this.#dispatch(record, { kind: 'abort' })
  }

  /** Posts every READ that became ready since the last call, in one call to the agent. */
  flush(): void {
    const waiting = this.#toPost.filter(({ state }) => state.kind === 'posting')
    this.#toPost = []
    const records = waiting.filter((record) => this.#checkHandoff(record))
    if (records.length === 0) return
    const { posting, transferDeadlineMs } = this.#options
    const posts = records.map((record) => readPost(record, this.#table, transferDeadlineMs))
    const results = postAll(this.#components.agent, posts, {
      waitUntilPosted: posting === 'inline',
    })
    for (const [index, record] of records.entries()) {
      const result = results[index]!
      if (result.kind === 'refused') {
        this.#dispatch(record, { kind: 'post-fail', error: result.error })
        continue
      }
      this.#reads.set(result.transfer, record)
      this.#dispatch(record, { kind: 'post-end', transfer: result.transfer })
    }
  }

  onCompletions(completions: readonly TransferCompletion[]): void {
    for (const completion of completions) {
      const record = this.#reads.get(completion.transfer)
      if (record !== undefined) this.#complete(record, completion)
    }
    this.flush()
  }

  /** Open READs are in doubt for good: their blocks stay in quarantine. */
  onBroken(error: AnyConnectorError): void {
    this.#stopError = error
    for (const record of [...this.#loads.values()]) {
      if (record.state.kind === 'connecting') this.#dispatch(record, { kind: 'peer-fail', error })
      this.#overdue(record)
    }
  }

  /** Waits for open READs up to `deadlineMs`, then lets the peers go whatever is open. */
  async shutdown(deadlineMs: number): Promise<void> {
    this.#stopError ??= closed('connector')
    for (const record of [...this.#loads.values()]) {
      if (record.state.kind !== 'connecting') continue
      this.#dispatch(record, { kind: 'peer-fail', error: this.#stopError })
    }
    if (this.#reads.size > 0) {
      try {
        await this.#components.agent.drain({ deadlineMs })
      } catch (cause) {
        const error = asConnectorError(cause, { operation: 'drain', peer: 'all' })
        this.#components.logger.warn(`READs are open at shutdown: ${error.message}`)
      }
    }
    await this.#peers.close()
  }

  #takeLoadId(): number {
    const loadId = this.#nextLoadId
    this.#nextLoadId = (loadId + 1) % 2 ** 32
    return loadId
  }

  #refusal(order: LoadOrder): AnyConnectorError | null {
    if (this.#stopError !== null) return this.#stopError
    if (this.#loads.size >= limits.requestCountMax) {
      return limitExceeded('requestCountMax', this.#loads.size + 1, limits.requestCountMax)
    }
    return (
      orderError(order, this.#blockCount) ??
      quarantineError(this.quarantinedBlockCount, this.#blockCount)
    )
  }

  #connect(record: LoadRecord): void {
    const answer = this.#peers.linkTo(record.order.handoff.remote)
    if (answer.kind === 'unavailable') {
      this.#dispatch(record, { kind: 'peer-fail', error: answer.error })
      return
    }
    record.peer = answer.key
    if (answer.kind === 'ready') this.#ready(record, answer.link)
  }

  #ready(record: LoadRecord, link: PeerLink): void {
    record.link = link
    this.#dispatch(record, { kind: 'peer-ready' })
  }

  #forWaiting(key: PeerKey, perform: (record: LoadRecord) => void): void {
    for (const record of [...this.#loads.values()]) {
      if (record.peer !== key || record.state.kind !== 'connecting') continue
      record.handshakeMs = this.#components.clock.now() - record.bindAtMs
      perform(record)
    }
    this.flush()
  }

  /** Key, clock and table of the producer are known only now. */
  #checkHandoff(record: LoadRecord): boolean {
    const { handoff } = record.order
    const link = record.link!
    const forgery = forgeryError(handoff, link, this.#tpRank)
    const error =
      forgery ??
      outOfRange(handoff.blockIds, link.blockCount) ??
      expiryError(handoff, link, this.#components.clock.now())
    if (error === null) return true
    if (forgery !== null) {
      this.#counters.add('messagesRefused')
      this.#components.metrics.add('kv_messages_refused_total', 1, { where: 'handoff' })
    }
    this.#dispatch(record, { kind: 'handoff-refuse', error })
    return false
  }

  #complete(record: LoadRecord, completion: TransferCompletion): void {
    const { metrics } = this.#components
    if (completion.status === 'overdue') {
      this.#overdue(record)
      return
    }
    this.#reads.delete(completion.transfer)
    recordRead(metrics, completion)
    const { status, times } = completion
    this.#dispatch(
      record,
      status === 'done'
        ? { kind: 'transfer-done', times }
        : { kind: 'transfer-fail', times, error: completion.error },
    )
    metrics.set('kv_blocks_quarantined', this.quarantinedBlockCount)
    if (record.peer !== null) this.#peers.readEnd(record.peer, status === 'done')
  }

  #overdue(record: LoadRecord): void {
    // A broken agent has put every open READ here already.
    const { kind } = record.state
    if (kind !== 'reading' && kind !== 'draining') return
    this.#counters.add('loadsOverdue')
    this.#dispatch(record, { kind: 'transfer-overdue' })
    recordOverdue(this.#components, record.order)
    this.#components.metrics.set('kv_blocks_quarantined', this.quarantinedBlockCount)
  }

  #dispatch(record: LoadRecord, event: LoadEvent): void {
    const now = this.#components.clock.now()
    const { state, effects } = stepLoad(record.state, event, now, undefined)
    record.state = state
    for (const effect of effects) this.#perform(record, effect)
  }

  #perform(record: LoadRecord, effect: LoadEffect): void {
    switch (effect.kind) {
      case 'post':
        this.#toPost.push(record)
        return
      case 'ask':
        void this.#ask(record)
        return
      case 'release':
        this.#releases.add(this.#peers, record.order.handoff, record.loadId)
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
    const { clock } = this.#components
    this.#dispatch(record, await askForLease(clock, link!.association, load))
  }

  #report(record: LoadRecord, outcome: LoadOutcome): void {
    const { order, state } = record
    this.#loads.delete(order.requestId)
    this.results.add(reported(order), outcome)
    if (outcome.kind === 'aborted' || state.kind !== 'ended') return
    this.results.addSample(sampleOf(record, state.times, this.#components.clock.now()))
  }
}

const reported = ({ requestId, localBlockIds }: LoadOrder) => ({
  requestId,
  blockIds: localBlockIds,
})
