/**
 * The leases of one producer: performs what lease-state.ts decides. Owns the records, one timer per
 * lease, and the ids that are to be reported as sent. Owned by producer-worker.ts.
 */
import {
  limits,
  type Clock,
  type Metrics,
  type RequestId,
  type Timer,
} from '@kvferry/connector-api'
import {
  stepLease,
  type Consumer,
  type LeaseContext,
  type LeaseCount,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
  type Reader,
  type Share,
  type Straggler,
} from './lease-state.ts'
import type { LeaseAnswer } from './messages.ts'
import type { PullCounters } from './pull-counters.ts'

interface LeaseRecord {
  readonly requestId: RequestId
  state: LeaseState
  timer: Timer | null
}

export class LeaseTable {
  readonly #clock: Clock
  readonly #metrics: Metrics
  readonly #counters: PullCounters
  readonly #context: LeaseContext
  readonly #onChange: () => void
  readonly #onStraggler: (requestId: RequestId, of: Straggler | null) => void
  readonly #records = new Map<RequestId, LeaseRecord>()
  #openCount = 0
  #isClosed = false
  #sent: RequestId[] = []

  constructor(options: {
    readonly clock: Clock
    readonly metrics: Metrics
    readonly counters: PullCounters
    readonly context: LeaseContext
    /** After a lease began or ended. */
    readonly onChange: () => void
    readonly onStraggler: (requestId: RequestId, of: Straggler | null) => void
  }) {
    this.#clock = options.clock
    this.#metrics = options.metrics
    this.#counters = options.counters
    this.#context = options.context
    this.#onChange = options.onChange
    this.#onStraggler = options.onStraggler
  }

  /** Leases whose blocks are held now. Kept as a count: it's wanted at every change. */
  get openCount(): number {
    return this.#openCount
  }

  /** Of these, the ones that a reader has asked for. */
  get claimedCount(): number {
    let count = 0
    for (const { state } of this.#records.values()) {
      if (state.kind === 'leased' && state.claim !== null) count += 1
    }
    return count
  }

  /** A lease of that life of a consumer is open: its end will be told. */
  hasReader({ engineId, incarnation }: Consumer): boolean {
    for (const { state } of this.#records.values()) {
      const reader =
        'claim' in state && state.kind !== 'read' ? (state.claim?.reader ?? null) : null
      if (reader?.engineId === engineId && reader.incarnation === incarnation) return true
    }
    return false
  }

  get hasUnreported(): boolean {
    return this.#sent.length > 0
  }

  /** Whether somebody may still begin to read it. */
  isOpen(requestId: RequestId): boolean {
    const kind = this.#records.get(requestId)?.state.kind
    return kind === 'announced' || kind === 'leased'
  }

  announce(requestId: RequestId): void {
    const known = this.#records.get(requestId)
    // The engine gave an id of a request that is over to a new one.
    if (known?.state.kind === 'read') this.#forget(known)
    else if (known !== undefined) return
    if (!this.#makeRoom()) return
    const state: LeaseState = { kind: 'announced', claim: null, promisedUntil: null }
    this.#records.set(requestId, { requestId, state, timer: null })
  }

  /** A lease that finds no room is over at once: its blocks go back, its reader will be told so. */
  start(requestId: RequestId, remainingMs: number): void {
    this.announce(requestId)
    const record = this.#records.get(requestId)
    if (record !== undefined) {
      this.#dispatch(record, { kind: 'lease-start', remainingMs })
      return
    }
    this.#countOne('refused')
    this.#sent.push(requestId)
    this.#onChange()
  }

  withdraw(requestId: RequestId): void {
    const record = this.#records.get(requestId)
    if (record !== undefined) this.#dispatch(record, { kind: 'withdraw' })
  }

  /** The answer with its handoff reached nobody. */
  undelivered(requestId: RequestId): void {
    const record = this.#records.get(requestId)
    if (record !== undefined) this.#dispatch(record, { kind: 'undelivered' })
  }

  renew(requestId: RequestId, reader: Reader, share: Share): LeaseAnswer {
    const record = this.#records.get(requestId)
    if (record === undefined) return { kind: 'unknown' }
    return this.#dispatch(record, { kind: 'renew', reader, share }) ?? { kind: 'unknown' }
  }

  /** Whether it is held for this consumer, for another `leaseDurationMs` from now. */
  heartbeat(requestId: RequestId, consumer: Consumer): boolean {
    const record = this.#records.get(requestId)
    if (record === undefined) return false
    return this.#dispatch(record, { kind: 'heartbeat', consumer })?.kind === 'granted'
  }

  /** News that one rank of a reader needs the blocks no more. */
  finish(requestId: RequestId, kind: 'read-done' | 'release', reader: Reader, share: Share): void {
    const record = this.#records.get(requestId)
    if (record === undefined) this.#countOne('late')
    else this.#dispatch(record, { kind, reader, share })
  }

  takeSent(): RequestId[] {
    const sent = this.#sent
    this.#sent = []
    return sent
  }

  /** Forgets everything and takes nothing on any more; no timer is left. */
  close(): void {
    this.#isClosed = true
    for (const { timer } of this.#records.values()) timer?.stop()
    this.#records.clear()
    this.#openCount = 0
    this.#sent = []
    this.#onChange()
  }

  /** When full, the oldest lease that is over is forgotten before its time. */
  #makeRoom(): boolean {
    if (this.#isClosed) return false
    if (this.#records.size < limits.requestCountMax) return true
    for (const record of this.#records.values()) {
      if (record.state.kind !== 'read') continue
      this.#forget(record)
      return true
    }
    return false
  }

  #forget(record: LeaseRecord): void {
    record.timer?.stop()
    this.#records.delete(record.requestId)
  }

  #dispatch(record: LeaseRecord, event: LeaseEvent): LeaseAnswer | null {
    const before = record.state.kind
    const { state, effects } = stepLease(record.state, event, this.#clock.now(), this.#context)
    record.state = state
    if (before === 'leased') this.#openCount -= 1
    if (state.kind === 'leased') this.#openCount += 1
    if (state.kind === 'ended') this.#forget(record)
    let answer: LeaseAnswer | null = null
    for (const effect of effects) {
      if (effect.kind === 'answer') answer = effect.answer
      else this.#perform(record, effect)
    }
    if (state.kind !== before) this.#onChange()
    return answer
  }

  #perform(record: LeaseRecord, effect: Exclude<LeaseEffect, { kind: 'answer' }>): void {
    switch (effect.kind) {
      case 'arm':
        record.timer?.stop()
        record.timer = this.#clock.after(Math.max(0, effect.at - this.#clock.now()), () =>
          this.#dispatch(record, { kind: 'timer' }),
        )
        return
      case 'report-sent':
        this.#sent.push(record.requestId)
        return
      case 'expect-straggler':
        this.#onStraggler(record.requestId, effect.of)
        return
      case 'count':
        this.#countOne(effect.what)
        return
    }
  }

  #countOne(what: LeaseCount): void {
    switch (what) {
      case 'granted':
        this.#counters.add('leasesGranted')
        this.#metrics.add('kv_leases_granted_total')
        return
      case 'expired':
        this.#counters.add('leasesExpired')
        this.#metrics.add('kv_leases_expired_total')
        return
      case 'read':
        this.#counters.add('leasesRead')
        return
      case 'released':
        this.#counters.add('leasesReleased')
        return
      case 'undelivered':
        this.#counters.add('handoffsUndelivered')
        return
      case 'late':
        this.#counters.add('notificationsLate')
        this.#metrics.add('kv_late_notifications_total')
        return
      case 'refused':
        this.#counters.add('messagesRefused')
        this.#metrics.add('kv_messages_refused_total', 1, { where: 'lease' })
        return
    }
  }
}
