/**
 * Where prefills and registrations meet on one producer rank, in whatever order they come: carries out what
 * source-state.ts and write-state.ts decide. A WRITE is handed to the agent in the turn in which the later
 * of both comes, behind the fence of the forward that computes its bytes. All events arrive on the engine's
 * thread and run to their end. Owned by producer-worker.ts.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type ReadyFence,
  type RequestId,
} from '@kvferry/connector-api'
import { closed, limitExceeded, type PeerFacts } from '@kvferry/connector-api/protocol'
import {
  WriteTable,
  hasOpenPosts,
  isOpen,
  isSamePrompt,
  lateKey,
  otherPrompt,
  registrationError,
  type ConsumerPeer,
  type PromptFacts,
  type Registration,
  type Release,
  type TransferStanding,
  type WithdrawQuestion,
  type WithdrawReply,
  type WriteTableOptions,
} from '@kvferry/connector-api/remote-writes'
import type { MetadataEntry } from './metadata.ts'
import { RegistrationWatch } from './registration-watch.ts'
import { RendezvousBook, rendezvousCountMax } from './rendezvous-book.ts'
import {
  noteConsumer,
  refusalOf,
  sourceContext,
  type PartRecord,
  type Rendezvous,
  type SourceRecord,
} from './rendezvous.ts'
import { SourceCounts } from './source-counts.ts'
import { stepSource, type SourceEffect, type SourceEvent } from './source-state.ts'

export interface RendezvousTableOptions extends Omit<WriteTableOptions<PartRecord>, 'onPartEnd'> {
  readonly facts: PeerFacts
  readonly rank: number
  readonly leaseDurationMs: number
  /** After a part or a source began or ended. */
  readonly onChange: () => void
}

type Computed = Extract<MetadataEntry, { kind: 'computed' }>

export class RendezvousTable {
  readonly writes: WriteTable<PartRecord>
  readonly counts = new SourceCounts()
  readonly #init: RendezvousTableOptions
  readonly #book: RendezvousBook
  readonly #watch: RegistrationWatch
  /** Of the requests that the engine has not got back. */
  readonly #sources = new Map<RequestId, Rendezvous>()
  #isClosed = false
  #sent: RequestId[] = []

  constructor(init: RendezvousTableOptions) {
    this.#init = init
    this.writes = new WriteTable({ ...init, onPartEnd: (part) => this.#partEnd(part) })
    const { leaseDurationMs, components } = init
    const { clock } = components
    this.#book = new RendezvousBook(clock)
    this.#watch = new RegistrationWatch({
      ...{ clock, leaseDurationMs },
      dispatch: (part, event) => this.writes.dispatch(part, event),
    })
  }

  get hasUnreported(): boolean {
    return this.#sent.length > 0
  }

  takeSent(): RequestId[] {
    const sent = this.#sent
    this.#sent = []
    return sent
  }

  announce(requestId: RequestId, transferId: string, prompt: PromptFacts): void {
    const meeting = this.#book.open(transferId)
    meeting.over = null
    meeting.retention?.stop()
    meeting.source = {
      ...{ requestId, prompt, blockIds: [], tokenEnd: 0, isComplete: false, isBegun: false },
      ...{ fence: null, timer: null, state: { kind: 'computing' } },
    }
    this.#sources.set(requestId, meeting)
    for (const part of [...meeting.parts.values()].filter(isOpen)) {
      this.#watch.listenFor(part)
      if (isSamePrompt(part.registration, meeting.source)) continue
      this.writes.dispatch(part, { kind: 'source-fail', error: otherPrompt() })
    }
  }

  /** The forward of this step computes it; `fence` is signalled when that has ended. */
  computed(entries: readonly Computed[], fence: ReadyFence | null): void {
    for (const { requestId, tokenEnd, isLast, firstBlock, blockIds } of entries) {
      const meeting = this.#sources.get(requestId)
      if (meeting === undefined) continue
      const source = meeting.source!
      source.blockIds = [...source.blockIds.slice(0, firstBlock), ...blockIds]
      source.tokenEnd = tokenEnd
      source.isComplete = isLast
      this.counts.setBegun(source, true)
      source.fence = fence
      if (isLast) this.#dispatch(meeting, { kind: 'compute-end' })
      for (const part of meeting.parts.values()) this.writes.advance(part)
    }
    this.writes.flush()
  }

  /** The engine has given it blocks. */
  begin(requestId: RequestId): void {
    const source = this.#sources.get(requestId)?.source
    if (source) this.counts.setBegun(source, true)
  }

  /** What happened to a request on this engine. */
  tell(requestId: RequestId, event: SourceEvent): void {
    const meeting = this.#sources.get(requestId)
    if (meeting !== undefined) this.#dispatch(meeting, event)
  }

  /** Parts of these requests that the agent still reads for. */
  openPartsOf(requestIds: readonly RequestId[]): PartRecord[] {
    return requestIds
      .flatMap((requestId) => [...(this.#sources.get(requestId)?.parts.values() ?? [])])
      .filter(hasOpenPosts)
  }

  /** Why it isn't taken on, or null. */
  register(registration: Registration, peer: ConsumerPeer): AnyConnectorError | null {
    const refusal = this.#refusal(registration, peer)
    if (refusal !== null) return refusal
    const meeting = this.#book.open(registration.transferId)
    const { rank } = registration
    if (meeting.parts.has(rank)) return null
    const part: PartRecord = {
      ...{ transfer: meeting, registration, peer, waiters: new Set() },
      ...{ times: null, postedAtMs: 0, lastWrites: [] },
      ...{ state: { kind: 'waiting' }, writtenEnd: registration.firstToken, silence: null },
    }
    noteConsumer(meeting, this.#init.facts, this.#init.rank, peer.facts)
    meeting.parts.set(rank, part)
    this.#watch.listenFor(part)
    this.#init.onChange()
    this.writes.advance(part)
    this.writes.flush()
    return null
  }

  /** Answers once nothing writes into those blocks, or that it can't say so yet. */
  withdraw(
    question: WithdrawQuestion,
    from: Pick<ConsumerPeer, 'identity'>,
  ): Promise<WithdrawReply> {
    const part = this.#book.find(question.transferId)?.parts.get(question.rank)
    const key = lateKey(from, question)
    if (part !== undefined && lateKey(part.peer, part.registration) === key) {
      return this.writes.withdraw(part)
    }
    const isPromised = this.#book.refuseLater(question.transferId, key)
    return isPromised ? Promise.resolve('withdrawn') : this.writes.replyLater()
  }

  release({ transferId, rank }: Release, peer: ConsumerPeer): void {
    const meeting = this.#book.find(transferId)
    if (meeting === undefined || meeting.parts.has(rank)) return
    noteConsumer(meeting, this.#init.facts, this.#init.rank, peer.facts)
    meeting.releasedRanks.add(rank)
    if (this.#isOwned(meeting)) this.#dispatch(meeting, { kind: 'part-end' })
  }

  /** How it stands for this consumer rank; it is kept for a while longer. */
  renew(transferId: string, peer: ConsumerPeer): TransferStanding {
    const meeting = this.#book.find(transferId)
    if (meeting === undefined) return 'unknown'
    if (this.#isOwned(meeting)) this.#dispatch(meeting, { kind: 'renew' })
    const part = meeting.parts.get(peer.rank)
    if (part === undefined) return meeting.source?.state.kind === 'held' ? 'held' : 'unknown'
    if (part.peer !== peer || !isOpen(part)) return 'unknown'
    if (!this.#isClosed) this.#watch.listenFor(part)
    return 'registered'
  }

  /** That consumer rank waits for nothing any more. */
  leave(peer: ConsumerPeer): void {
    for (const part of this.#partsOf(peer)) this.writes.dispatch(part, { kind: 'leave' })
  }

  hasOpenWrites(peer: ConsumerPeer): boolean {
    return this.#partsOf(peer).some(hasOpenPosts)
  }

  /** Nothing is taken on any more; what is not on its way is given up. */
  stop(): void {
    this.#isClosed = true
    const error = closed('connector')
    for (const part of this.#book.parts) this.writes.dispatch(part, { kind: 'source-fail', error })
  }

  /** Leaves no timer. */
  close(): void {
    this.writes.close()
    this.#book.close()
    this.#sources.clear()
    this.counts.clear()
  }

  #refusal(registration: Registration, peer: ConsumerPeer): AnyConnectorError | null {
    if (this.#isClosed) return closed('connector')
    const invalid = registrationError(registration, peer)
    if (invalid !== null) return invalid
    const meeting = this.#book.find(registration.transferId)
    if (meeting !== undefined) return refusalOf(meeting, registration, peer)
    if (this.#book.makeRoom()) return null
    return limitExceeded('requestCountMax', this.#book.size + 1, rendezvousCountMax)
  }

  /** This engine has a request for it that has not ended. */
  #isOwned(meeting: Rendezvous): boolean {
    const { source } = meeting
    return source !== null && this.#sources.get(source.requestId) === meeting
  }

  #partsOf(peer: ConsumerPeer): PartRecord[] {
    return this.#book.parts.filter((part) => part.peer === peer)
  }

  #partEnd(part: PartRecord): void {
    part.silence?.stop()
    const { transfer: rendezvous } = part
    if (this.#isOwned(rendezvous)) this.#dispatch(rendezvous, { kind: 'part-end' })
    else if (![...rendezvous.parts.values()].some(isOpen)) this.#book.forgetLater(rendezvous)
    this.#init.onChange()
  }

  #dispatch(meeting: Rendezvous, event: SourceEvent): void {
    const source = meeting.source!
    const context = sourceContext(meeting, this.#init.leaseDurationMs)
    const now = this.#init.components.clock.now()
    const { state, effects } = stepSource(source.state, event, now, context)
    this.counts.setState(source, state)
    if (state.kind === 'ended') this.#sourceEnd(meeting, source)
    for (const effect of effects) this.#perform(meeting, source, effect)
    this.#init.onChange()
  }

  #perform(meeting: Rendezvous, source: SourceRecord, effect: SourceEffect): void {
    switch (effect.kind) {
      case 'fail-parts':
        for (const part of [...meeting.parts.values()]) {
          this.writes.dispatch(part, { kind: 'source-fail', error: effect.error })
        }
        return
      case 'preempt-parts':
        Object.assign(source, { blockIds: [], tokenEnd: 0, isComplete: false, fence: null })
        this.counts.setBegun(source, false)
        for (const part of [...meeting.parts.values()]) this.writes.preempt(part)
        return
      case 'arm':
        return this.#arm(meeting, source, effect.at)
      case 'report-sent':
        this.#sent.push(source.requestId)
        return
      case 'count-expired':
        this.#init.counters.add('leasesExpired')
        this.#init.components.metrics.add('kv_leases_expired_total')
        return
      case 'count-undelivered':
        return this.#init.counters.add('handoffsUndelivered')
    }
  }

  #arm(meeting: Rendezvous, source: SourceRecord, at: number): void {
    const { clock } = this.#init.components
    source.timer?.stop()
    source.timer = clock.after(Math.max(0, at - clock.now()), () =>
      this.#dispatch(meeting, { kind: 'timer' }),
    )
  }

  #sourceEnd(meeting: Rendezvous, source: SourceRecord): void {
    source.timer?.stop()
    this.#sources.delete(source.requestId)
    const { requestId } = source
    const message = 'the producer holds nothing of this transfer any more'
    meeting.over = new ConnectorError('ERR_KV_LEASE_EXPIRED', message, { requestId })
    this.#book.forgetLater(meeting)
  }
}
