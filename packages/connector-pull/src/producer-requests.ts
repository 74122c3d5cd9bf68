/**
 * The requests whose KV others will read, on the scheduler half: feeds the producer machine and writes the
 * handoff at the end of each. Two kinds: a prefill, whose prompt a decode engine will read, and (in
 * bidirectional mode) a decode, whose prompt and answer a prefill engine will read for the next turn. Owned
 * by scheduler.ts.
 */
import {
  instantPlus,
  type BlockIds,
  type KvTransferParams,
  type RankKey,
  type RequestId,
  type RequestView,
  type SchedulerComponents,
} from '@kvferry/connector-api'
import {
  stepProducerRequest,
  readableBlocks,
  type ProducerRequestState,
  type ProducerRequestEffect,
  type ProducerRequestEvent,
} from '@kvferry/connector-api/protocol'
import { HandoffWriter } from './handoff-writer.ts'
import type { MetadataOutbox, PendingEntry } from './metadata-outbox.ts'
import type { PullOptions } from './options.ts'

/** `prefill`: the prompt goes to a decode engine. `return`: prompt and answer go back. */
export type ProducerRole = 'prefill' | 'return'

interface ProducerRecord {
  readonly role: ProducerRole
  state: ProducerRequestState
}

/** What `requestFinished` answers. */
export interface Finish {
  readonly delayFree: boolean
  readonly kvTransferParams: KvTransferParams | null
}

export const nothingToFinish: Finish = { delayFree: false, kvTransferParams: null }

export class ProducerRequests {
  readonly #components: SchedulerComponents
  readonly #options: PullOptions
  readonly #outbox: MetadataOutbox
  readonly #records = new Map<RequestId, ProducerRecord>()
  #writer: HandoffWriter | null = null
  #leasedCount = 0

  constructor(components: SchedulerComponents, options: PullOptions, outbox: MetadataOutbox) {
    this.#components = components
    this.#options = options
    this.#outbox = outbox
  }

  /** @throws ConnectorError ERR_KV_UNSUPPORTED (a rank is missing), ERR_KV_MESSAGE_INVALID. */
  setHandshakeMetadata(byRank: ReadonlyMap<RankKey, Uint8Array>): void {
    const { blockTokens, engineId, incarnation } = this.#components
    this.#writer = new HandoffWriter({ engineId, incarnation }, blockTokens, byRank)
  }

  /** Ranks of this engine; 1 until they have registered. */
  get tpSize(): number {
    return this.#writer?.tpSize ?? 1
  }

  get size(): number {
    return this.#records.size
  }

  get hasLeases(): boolean {
    return this.#leasedCount > 0
  }

  has(requestId: RequestId): boolean {
    return this.#records.has(requestId)
  }

  add(requestId: RequestId, role: ProducerRole): void {
    this.#records.set(requestId, { role, state: { kind: 'new' } })
  }

  allocated(requestId: RequestId): void {
    this.#step(requestId, { kind: 'allocated' })
  }

  sent(requestId: RequestId): void {
    this.#step(requestId, { kind: 'sent' })
  }

  /** Its handoff reached nobody. */
  undelivered(requestId: RequestId): void {
    const record = this.#records.get(requestId)
    if (record?.state.kind === 'leased') this.#step(requestId, { kind: 'undelivered' })
  }

  finish(request: RequestView, blocks: BlockIds): Finish {
    const { requestId } = request
    const record = this.#records.get(requestId)
    if (record === undefined) return nothingToFinish
    const { blockTokens, clock, logger } = this.#components
    const isReturn = record.role === 'return'
    const tokenCount = isReturn ? request.computedTokenCount : request.promptTokenCount
    const readable = readableBlocks(request, tokenCount, blocks, blockTokens)
    // Of a whole conversation it is work, so it's asked for only where there is something to read.
    const promptDigest =
      readable.kind === 'readable' ? digestOf(request, tokenCount, isReturn) : null
    const writer = record.state.kind === 'new' ? null : this.#writer
    if (readable.kind === 'unreadable' || promptDigest === null || writer === null) {
      const other =
        writer === null ? 'no worker knows of it' : 'the engine does not tell its tokens'
      const reason = readable.kind === 'unreadable' ? readable.reason : other
      logger.debug('no handoff', { requestId, reason })
      this.#step(requestId, { kind: 'finished-unreadable' })
      return nothingToFinish
    }
    const leaseDeadline = instantPlus(clock.now(), this.#leaseDurationMs(record))
    if (this.#components.config.bufferDevice === 'host') {
      this.#outbox.push({ kind: 'stage', requestId, blockIds: readable.blockIds })
    }
    this.#step(requestId, { kind: 'finished-readable' })
    const { blockIds } = readable
    const content = { blockIds, tokenCount, promptDigest, leaseDeadline, isReturn }
    return { delayFree: true, kvTransferParams: writer.write(requestId, content) }
  }

  clear(): void {
    this.#records.clear()
    this.#leasedCount = 0
  }

  #leaseDurationMs({ role }: ProducerRecord): number {
    const { decoderBlocksTtlMs, leaseDurationMs } = this.#options
    return role === 'return' ? decoderBlocksTtlMs : leaseDurationMs
  }

  /** Unknown ids are ignored: the record may have ended. */
  #step(requestId: RequestId, event: ProducerRequestEvent): void {
    const record = this.#records.get(requestId)
    if (record === undefined) return
    const now = this.#components.clock.now()
    const leaseDurationMs = this.#leaseDurationMs(record)
    const next = stepProducerRequest(record.state, event, now, { leaseDurationMs })
    this.#leasedCount +=
      Number(next.state.kind === 'leased') - Number(record.state.kind === 'leased')
    record.state = next.state
    if (next.state.kind === 'ended') this.#records.delete(requestId)
    for (const effect of next.effects) this.#outbox.push(entryOf(requestId, effect))
    // Hooks before `buildConnectorMeta` are inside a step already; an end may find the engine idle.
    if (event.kind !== 'allocated' && next.effects.length > 0) this.#components.requestStep()
  }
}

/** Of the tokens that are handed over; null where the engine can't say. */
const digestOf = (request: RequestView, tokenCount: number, isReturn: boolean) =>
  isReturn ? (request.digestOf?.(tokenCount) ?? null) : request.promptDigest

function entryOf(requestId: RequestId, effect: ProducerRequestEffect): PendingEntry {
  return effect.kind === 'lease'
    ? { kind: 'lease-until', requestId, deadline: effect.deadline }
    : { kind: effect.kind, requestId }
}
