/**
 * The tickets of one producer, and the loads that consumers registered for them: carries out what
 * ticket-state.ts and write-state.ts decide. A WRITE is handed to the agent in the turn in which the later of
 * both comes. All events arrive on the engine's thread and run to their end. Owned by producer-worker.ts.
 */
import { limits, type AnyConnectorError, type RequestId } from '@kvferry/connector-api'
import { closed } from '@kvferry/connector-api/protocol'
import {
  WriteTable,
  isOpen,
  isSamePrompt,
  lateKey,
  otherPrompt,
  registrationError,
  type ConsumerPeer,
  type PromptFacts,
  type Registration,
  type Release,
  type TransferDesk,
  type TransferStanding,
  type WithdrawQuestion,
  type WithdrawReply,
} from '@kvferry/connector-api/remote-writes'
import type { Ticket } from './handoff.ts'
import { xavierLimits } from './limits.ts'
import {
  announced,
  isWrittenTo,
  noKeys,
  noTicket,
  offerOf,
  othersTicket,
  sourceOf,
  type TicketPart,
  type TicketRecord,
} from './ticket-record.ts'
import {
  claimantOf,
  isHeld,
  stepTicket,
  type TicketEffect,
  type TicketEvent,
} from './ticket-state.ts'
import { contextOf, type TicketTableOptions } from './ticket-table-options.ts'
import { WrittenLoads } from './written-loads.ts'
import { countTicket } from './xavier-counters.ts'

export class TicketTable implements TransferDesk {
  readonly writes: WriteTable<TicketPart>
  readonly #init: TicketTableOptions
  readonly #tickets = new Map<Ticket, TicketRecord>()
  readonly #byRequest = new Map<RequestId, TicketRecord>()
  readonly #written: WrittenLoads
  #heldCount = 0
  #isClosed = false
  #sent: RequestId[] = []

  constructor(init: TicketTableOptions) {
    this.#init = init
    this.writes = new WriteTable({ ...init, onPartEnd: (part) => this.#partEnd(part) })
    this.#written = new WrittenLoads(init.components.clock)
  }

  /** Requests whose blocks the engine keeps. */
  get heldCount(): number {
    return this.#heldCount
  }

  get hasUnreported(): boolean {
    return this.#sent.length > 0
  }

  /** Each id once. */
  takeSent(): RequestId[] {
    const sent = this.#sent
    this.#sent = []
    return sent
  }

  announce(requestId: RequestId, ticket: Ticket): void {
    const isFull = this.#tickets.size >= limits.requestCountMax
    if (this.#isClosed || isFull || this.#tickets.has(ticket)) return
    const record = announced(ticket, requestId)
    this.#tickets.set(ticket, record)
    this.#byRequest.set(requestId, record)
  }

  /** Its request has ended with KV in these blocks, the first of which history may keep under `keys`. */
  hold(requestId: RequestId, prompt: PromptFacts, blockIds: Uint32Array, keys = noKeys): void {
    const record = this.#byRequest.get(requestId)
    // It found no room: it is over at once.
    if (record === undefined) {
      this.#sent.push(requestId)
      this.#init.onChange()
      return
    }
    record.source = sourceOf(requestId, prompt, blockIds)
    record.keys = keys
    this.#dispatch(record, { kind: 'register' })
    const { publish } = this.#init
    if (publish === null) this.#publish(record)
    else void publish(blockIds).then((error) => this.#publish(record, error))
  }

  /** Its request has ended without. */
  withdrawSource(requestId: RequestId): void {
    const record = this.#byRequest.get(requestId)
    if (record === undefined) return
    const error = closed(`prefill ${requestId}`)
    if (record.part !== null) this.writes.dispatch(record.part, { kind: 'source-fail', error })
    this.#dispatch(record, { kind: 'withdraw' })
  }

  /** The answer with its ticket reached nobody. Unknown ids are ignored: the ticket may have ended. */
  undelivered(requestId: RequestId): void {
    const record = this.#byRequest.get(requestId)
    if (record !== undefined) this.#dispatch(record, { kind: 'undelivered' })
  }

  /** A claim, or the same again. */
  renew(ticket: string, peer: ConsumerPeer): TransferStanding {
    const record = this.#tickets.get(ticket)
    if (record === undefined || !this.#claim(record, peer)) return 'unknown'
    const { part, state } = record
    if (part !== null && isOpen(part)) return 'registered'
    return state.kind === 'claimed' ? 'held' : 'unknown'
  }

  /** Has the KV written into the blocks that this consumer names. */
  register(registration: Registration, peer: ConsumerPeer): AnyConnectorError | null {
    if (this.#isClosed) return closed('connector')
    const invalid = registrationError(registration, peer)
    if (invalid !== null) return invalid
    const record = this.#tickets.get(registration.transferId)
    if (record === undefined) return noTicket()
    const refusal = this.#refusal(record, registration, peer)
    if (refusal !== null) return refusal
    if (record.part !== null) return null
    const part: TicketPart = {
      ...{ transfer: record, registration, peer, silence: null, waiters: new Set() },
      ...{ state: { kind: 'waiting' }, writtenEnd: registration.firstToken },
      ...{ times: null, postedAtMs: 0, lastWrites: [] },
    }
    record.part = part
    this.#dispatch(record, { kind: 'read-start', claimant: peer.identity })
    this.#advance(part)
    return null
  }

  /** Answers once nothing writes into those blocks, or that it can't say so yet. */
  withdraw(
    question: WithdrawQuestion,
    from: Pick<ConsumerPeer, 'identity'>,
  ): Promise<WithdrawReply> {
    const key = lateKey(from, question)
    const record = this.#tickets.get(question.transferId)
    const part = record?.part ?? null
    if (part !== null && lateKey(part.peer, part.registration) === key) {
      return this.writes.withdraw(part)
    }
    if (this.#written.has(key)) return Promise.resolve('written')
    // What isn't known will be refused when it comes.
    if (record === undefined || this.#isClosed) return Promise.resolve('withdrawn')
    const { withdrawn } = record
    if (withdrawn.size >= xavierLimits.earlyWithdrawalCountMax && !withdrawn.has(key)) {
      return this.writes.replyLater()
    }
    withdrawn.add(key)
    return Promise.resolve('withdrawn')
  }

  release({ transferId }: Release, { identity: claimant }: ConsumerPeer): void {
    const record = this.#tickets.get(transferId)
    if (record !== undefined) this.#dispatch(record, { kind: 'release', claimant })
  }

  /** That consumer is gone: what it waits for is given up, what it claimed is kept for a shorter while. */
  leave(peer: ConsumerPeer): void {
    for (const record of [...this.#tickets.values()]) {
      if (record.part?.peer === peer) this.writes.dispatch(record.part, { kind: 'leave' })
      if (this.#tickets.get(record.ticket) !== record) continue
      this.#dispatch(record, { kind: 'claimant-gone', claimant: peer.identity })
    }
  }

  hasOpenWrites(peer: ConsumerPeer): boolean {
    return [...this.#tickets.values()].some((record) => isWrittenTo(record, peer))
  }

  /** Nothing is taken on any more; what is not on its way is given up. */
  stop(): void {
    this.#isClosed = true
    const error = closed('connector')
    for (const { part } of [...this.#tickets.values()]) {
      if (part !== null) this.writes.dispatch(part, { kind: 'source-fail', error })
    }
    for (const record of [...this.#tickets.values()]) this.#dispatch(record, { kind: 'close' })
  }

  /** Leaves no timer. What is being read stays known: whoever withdraws it must hear that a WRITE is open. */
  close(): void {
    this.writes.close()
    for (const { timer } of this.#tickets.values()) timer?.stop()
  }

  #refusal(
    record: TicketRecord,
    registration: Registration,
    peer: ConsumerPeer,
  ): AnyConnectorError | null {
    const { source, part, withdrawn } = record
    if (source !== null && !isSamePrompt(registration, source)) return otherPrompt()
    if (withdrawn.has(lateKey(peer, registration))) return closed('registration')
    if (!this.#claim(record, peer)) {
      return claimantOf(record.state) === null ? noTicket() : othersTicket()
    }
    const isAnother = part !== null && part.registration.loadId !== registration.loadId
    return isAnother ? othersTicket() : null
  }

  #claim(record: TicketRecord, { identity: claimant }: ConsumerPeer): boolean {
    return this.#dispatch(record, { kind: 'claim', claimant })
  }

  #advance(part: TicketPart): void {
    if (!part.transfer.isPublished) return
    this.writes.advance(part)
    this.writes.flush()
  }

  /** Its blocks may be read from now on; `failure`: they never may. */
  #publish(record: TicketRecord, failure: AnyConnectorError | null = null): void {
    if (this.#tickets.get(record.ticket) !== record) return
    const { part, source } = record
    record.isPublished = failure === null
    if (part !== null) {
      const error = failure ?? (isSamePrompt(part.registration, source!) ? null : otherPrompt())
      if (error === null) this.#advance(part)
      else this.writes.dispatch(part, { kind: 'source-fail', error })
    }
    if (failure !== null && isHeld(record.state)) this.#dispatch(record, { kind: 'close' })
  }

  #partEnd(part: TicketPart): void {
    const { transfer: record, peer, registration, state } = part
    const isWritten = state.kind === 'ended' && state.outcome === 'written'
    if (isWritten) this.#written.add(lateKey(peer, registration))
    this.#dispatch(record, { kind: 'read-end' })
  }

  /** Whether what was asked for is granted; false where nothing was asked. */
  #dispatch(record: TicketRecord, event: TicketEvent): boolean {
    const context = contextOf(this.#init, record)
    const now = this.#init.components.clock.now()
    const { state, effects } = stepTicket(record.state, event, now, context)
    this.#heldCount += Number(isHeld(state)) - Number(isHeld(record.state))
    record.state = state
    if (state.kind === 'finished') this.#forget(record)
    let isGranted = false
    for (const effect of effects) {
      if (effect.kind === 'answer') isGranted = effect.isGranted
      else this.#perform(record, effect)
    }
    this.#init.onChange()
    return isGranted
  }

  #forget(record: TicketRecord): void {
    record.timer?.stop()
    this.#tickets.delete(record.ticket)
    this.#byRequest.delete(record.requestId)
  }

  #perform(record: TicketRecord, effect: Exclude<TicketEffect, { kind: 'answer' }>): void {
    const { clock } = this.#init.components
    switch (effect.kind) {
      case 'arm':
        record.timer?.stop()
        record.timer = clock.after(Math.max(0, effect.at - clock.now()), () =>
          this.#dispatch(record, { kind: 'timer' }),
        )
        return
      case 'retain':
        return this.#retain(record)
      case 'report-sent':
        this.#sent.push(record.requestId)
        return
      case 'count':
        return countTicket(this.#init, effect.what)
    }
  }

  #retain(record: TicketRecord): void {
    const end = (): void => void this.#dispatch(record, { kind: 'retention-end' })
    const copying = this.#init.retain!(offerOf(record))
    if (copying === null) end()
    else void copying.then(end)
  }
}
