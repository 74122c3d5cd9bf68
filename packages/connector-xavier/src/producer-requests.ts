/**
 * The requests whose KV goes to other engines, on the scheduler half: gives each its ticket when it gets
 * blocks, and writes the handoff at its end. Owned by scheduler.ts.
 */
import {
  rankKey,
  type BlockIds,
  type BlockKeys,
  type KvTransferParams,
  type RankKey,
  type RequestId,
  type RequestView,
  type SchedulerComponents,
} from '@kvferry/connector-api'
import {
  readableBlocks,
  stepProducerRequest,
  unsupported,
  type ProducerRequestEvent,
  type ProducerRequestState,
} from '@kvferry/connector-api/protocol'
import type { ProducerPlace } from '@kvferry/connector-api/remote-writes'
import { encodeHandoff, type Ticket } from './handoff.ts'
import type { MetadataOutbox } from './metadata.ts'
import { decodeRankMetadata } from './rank-metadata.ts'
import { TicketMaker } from './ticket-maker.ts'

interface ProducerRecord {
  readonly ticket: Ticket
  state: ProducerRequestState
}

/** What `requestFinished` answers. */
export interface Finish {
  readonly delayFree: boolean
  readonly kvTransferParams: KvTransferParams | null
}

const nothing: Finish = { delayFree: false, kvTransferParams: null }

export class ProducerRequests {
  readonly #components: SchedulerComponents
  readonly #outbox: MetadataOutbox
  readonly #leaseDurationMs: number
  readonly #records = new Map<RequestId, ProducerRecord>()
  #place: ProducerPlace | null = null
  #tickets: TicketMaker | null = null
  #keepsHistory = false

  /** `leaseDurationMs`: how long a ticket lives that nobody claims. */
  constructor(components: SchedulerComponents, outbox: MetadataOutbox, leaseDurationMs: number) {
    this.#components = components
    this.#outbox = outbox
    this.#leaseDurationMs = leaseDurationMs
  }

  /** @throws ConnectorError ERR_KV_UNSUPPORTED (not one rank), ERR_KV_MESSAGE_INVALID. */
  setHandshakeMetadata(byRank: ReadonlyMap<RankKey, Uint8Array>): void {
    const bytes = byRank.get(rankKey(0, 0))
    if (bytes === undefined || byRank.size > 1) {
      throw unsupported('tensorParallel', `xavier serves one TP rank, not ${byRank.size}`)
    }
    const { host, port, keepsHistory, ticketKey } = decodeRankMetadata(bytes)
    this.#tickets = new TicketMaker(ticketKey)
    this.#keepsHistory = keepsHistory
    this.#place = { engineId: this.#components.engineId, host, port, tpSize: 1 }
  }

  /** The worker half has a history. */
  get keepsHistory(): boolean {
    return this.#keepsHistory
  }

  get size(): number {
    return this.#records.size
  }

  /** The engine keeps blocks for a report. */
  get hasHeldBlocks(): boolean {
    for (const { state } of this.#records.values()) if (state.kind === 'leased') return true
    return false
  }

  has(requestId: RequestId): boolean {
    return this.#records.has(requestId)
  }

  /** Before the worker half is known nothing is handed over: its request is served like any other. */
  add(requestId: RequestId): void {
    if (this.#tickets === null) return
    this.#records.set(requestId, { ticket: this.#tickets.make(requestId), state: { kind: 'new' } })
  }

  allocated(requestId: RequestId): void {
    this.#step(requestId, { kind: 'allocated' })
  }

  sent(requestId: RequestId): void {
    const record = this.#records.get(requestId)
    if (record?.state.kind === 'leased') this.#step(requestId, { kind: 'sent' })
  }

  /** Its handoff reached nobody. */
  undelivered(requestId: RequestId): void {
    const record = this.#records.get(requestId)
    if (record?.state.kind === 'leased') this.#step(requestId, { kind: 'undelivered' })
  }

  /** `keysOf`: asked for when its blocks are handed over; under these the history may keep them. */
  finish(request: RequestView, blocks: BlockIds, keysOf: () => BlockKeys): Finish {
    const { requestId, promptDigest, promptTokenCount: tokenCount } = request
    const record = this.#records.get(requestId)
    if (record === undefined) return nothing
    const { blockTokens } = this.#components
    const content = readableBlocks(request, tokenCount, blocks, blockTokens)
    const isKnown = record.state.kind === 'announced'
    if (content.kind === 'unreadable' || !isKnown) {
      const reason = content.kind === 'unreadable' ? content.reason : 'no worker knows of it'
      this.#components.logger.debug('no handoff', { requestId, reason })
      this.#step(requestId, { kind: 'finished-unreadable' })
      return nothing
    }
    const { blockIds } = content
    const prompt = { tokenCount, digest: promptDigest }
    this.#outbox.push({ kind: 'register', requestId, prompt, blockIds, keys: keysOf() })
    this.#step(requestId, { kind: 'finished-readable' })
    const { ticket } = record
    const kvTransferParams = encodeHandoff({ producer: this.#place!, ticket, tokenCount })
    return { delayFree: true, kvTransferParams }
  }

  clear(): void {
    this.#records.clear()
  }

  /** Unknown ids are ignored: the record may have ended. */
  #step(requestId: RequestId, event: ProducerRequestEvent): void {
    const record = this.#records.get(requestId)
    if (record === undefined) return
    const now = this.#components.clock.now()
    const context = { leaseDurationMs: this.#leaseDurationMs }
    const { state, effects } = stepProducerRequest(record.state, event, now, context)
    record.state = state
    if (state.kind === 'ended') this.#records.delete(requestId)
    for (const { kind } of effects) {
      if (kind === 'announce') this.#outbox.push({ kind, requestId, ticket: record.ticket })
      else if (kind !== 'lease') this.#outbox.push({ kind, requestId })
    }
    // Hooks before `buildConnectorMeta` are inside a step already; an end may find the engine idle.
    if (event.kind !== 'allocated' && effects.length > 0) this.#components.requestStep()
  }
}
