/**
 * The history on the worker half: looks up what the scheduler half asks about, restores into the blocks that the
 * engine allocated, and offers what tickets let go of. Failures are reports of single requests. Runs on the
 * engine's thread; owned by producer-worker.ts.
 */
import {
  ConnectorError,
  assertNever,
  noDestination,
  type AnyConnectorError,
  type BlockKeys,
  type FailedLoad,
  type HistoryLease,
  type HistoryOffer,
  type HistoryRestore,
  type KvHistory,
  type MatchedBlocks,
  type RequestId,
  type Timer,
  type WorkerComponents,
} from '@kvferry/connector-api'
import { asConnectorError, within } from '@kvferry/connector-api/protocol'
import {
  stepReservation,
  type ReservationEffect,
  type ReservationEvent,
  type ReservationState,
} from './reservation-state.ts'

export interface HistoryResults {
  readonly received: readonly RequestId[]
  readonly failed: readonly FailedLoad[]
  readonly matched: readonly MatchedBlocks[]
}

export class HistoryDesk {
  readonly #history: KvHistory
  readonly #components: WorkerComponents
  /** A restore without an end after this keeps its blocks out of service. */
  readonly #deadlineMs: number
  readonly #reservations = new Map<RequestId, ReservationState>()
  #hasChanged = true
  #received: RequestId[] = []
  #failed: FailedLoad[] = []
  #matched: MatchedBlocks[] = []

  constructor(history: KvHistory, components: WorkerComponents, deadlineMs: number) {
    this.#history = history
    this.#components = components
    this.#deadlineMs = deadlineMs
  }

  get quarantinedBlockCount(): number {
    let count = 0
    for (const state of this.#reservations.values()) {
      if (state.kind !== 'restoring' || !state.isOverdue) continue
      count += state.blockIds.filter((id) => id !== noDestination).length
    }
    return count
  }

  /** Whether anything has happened since `takeCounters`: asked for in every step. */
  get hasChanged(): boolean {
    return this.#hasChanged
  }

  /** What the history has counted since the start, and holds now. */
  takeCounters(): Readonly<Record<string, number>> {
    this.#hasChanged = false
    const gauges = this.#history.gauges()
    return {
      ...this.#history.counters(),
      historyDeviceBlocks: gauges.deviceBlocks,
      historyHostBlocks: gauges.hostBlocks,
      historyDeviceBlockCapacity: gauges.deviceBlockCapacity,
      historyHostBlockCapacity: gauges.hostBlockCapacity,
      historyDeviceBytesReserved: gauges.deviceBytesReserved,
      historyHostBytesReserved: gauges.hostBytesReserved,
      historyLeasesOpen: gauges.leasesOpen,
      historySlotsQuarantined: gauges.slotsQuarantined,
    }
  }

  /** Each report once. */
  take(): HistoryResults {
    const results = { received: this.#received, failed: this.#failed, matched: this.#matched }
    this.#received = []
    this.#failed = []
    this.#matched = []
    return results
  }

  /** Reserves what there is of these blocks in a row, and answers. */
  ask(requestId: RequestId, question: number, keys: BlockKeys): void {
    this.#hasChanged = true
    const before = this.#reservations.get(requestId) ?? { kind: 'none' }
    this.#reservations.set(requestId, before)
    const found = this.#history.reserve(keys, 0)
    if (found === null) this.#dispatch(requestId, { kind: 'missing' })
    else this.#dispatch(requestId, { kind: 'found', lease: found.lease })
    this.#matched.push({ requestId, question, blockCount: found?.blockCount ?? 0 })
    this.#components.requestStep()
  }

  restore(requestId: RequestId, blockIds: Uint32Array): void {
    // It ended with the history that closed.
    if (!this.#reservations.has(requestId)) {
      return this.#report(requestId, blockIds, leaseGone(requestId))
    }
    this.#dispatch(requestId, { kind: 'restore', blockIds })
  }

  forget(requestId: RequestId): void {
    this.#dispatch(requestId, { kind: 'forget' })
  }

  /** Null: nothing is copied. Never rejects. */
  readonly retain = (offer: HistoryOffer): Promise<void> | null => {
    this.#hasChanged = true
    const copying = this.#history.offer(offer)
    return copying === null ? null : copying.then(() => void (this.#hasChanged = true))
  }

  /** Reserves nothing more, ends the writer, waits for what is being copied, up to `deadlineMs`. */
  async close(deadlineMs: number): Promise<void> {
    for (const requestId of [...this.#reservations.keys()]) {
      this.#dispatch(requestId, { kind: 'close' })
    }
    await within(this.#components.clock, deadlineMs, this.#history.close())
  }

  /** Unknown ids are ignored: nothing was reserved for them. */
  #dispatch(requestId: RequestId, event: ReservationEvent): void {
    const before = this.#reservations.get(requestId)
    if (before === undefined) return
    this.#hasChanged = true
    const now = this.#components.clock.now()
    const { state, effects } = stepReservation(before, event, now, undefined)
    if (state.kind === 'ended') this.#reservations.delete(requestId)
    else this.#reservations.set(requestId, state)
    for (const effect of effects) this.#perform(requestId, effect)
  }

  #perform(requestId: RequestId, effect: ReservationEffect): void {
    switch (effect.kind) {
      case 'release':
        return this.#history.release(effect.lease)
      case 'copy':
        void this.#copy(requestId, effect.lease, effect.blockIds)
        return
      case 'report':
        return this.#report(requestId, effect.blockIds, effect.error)
      case 'alarm':
        return this.#alarm(requestId)
      default:
        return assertNever(effect)
    }
  }

  /** An engine that only waits for it takes no step by itself, and its counters are asked for in steps. */
  #alarm(requestId: RequestId): void {
    this.#components.logger.error('history: a restore has no end yet; its blocks stay out of use', {
      requestId,
    })
    this.#components.requestStep()
  }

  async #copy(requestId: RequestId, lease: HistoryLease, blockIds: Uint32Array): Promise<void> {
    const { clock } = this.#components
    const overdue: Timer = clock.after(this.#deadlineMs, () =>
      this.#dispatch(requestId, { kind: 'overdue' }),
    )
    const error = await this.#history.restore(lease, blockIds).then(
      (end) => errorOf(requestId, end),
      (cause: unknown) => this.#unstarted(lease, cause),
    )
    overdue.stop()
    this.#dispatch(requestId, { kind: 'restore-end', error })
  }

  /** It was refused before anything was copied. */
  #unstarted(lease: HistoryLease, cause: unknown): AnyConnectorError {
    this.#history.release(lease)
    return asConnectorError(cause, { operation: 'restore', peer: 'history' })
  }

  #report(requestId: RequestId, destinations: Uint32Array, error: AnyConnectorError | null): void {
    this.#received.push(requestId)
    if (error !== null) {
      const blockIds = [destinations.filter((id) => id !== noDestination)]
      this.#failed.push({ requestId, blockIds, error })
      const { code, message } = error
      this.#components.logger.warn(`not restored, computed: ${message}`, { requestId, code })
    }
    this.#components.requestStep()
  }
}

function errorOf(requestId: RequestId, end: HistoryRestore): AnyConnectorError | null {
  switch (end.kind) {
    case 'restored':
      return null
    case 'lease-gone':
      return leaseGone(requestId)
    case 'failed':
      return end.error
    default:
      return assertNever(end)
  }
}

function leaseGone(requestId: RequestId): AnyConnectorError {
  const message = 'the history’s reservation ended before there was room'
  return new ConnectorError('ERR_KV_LEASE_EXPIRED', message, { requestId })
}
