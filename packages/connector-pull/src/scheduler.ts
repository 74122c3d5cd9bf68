/**
 * Scheduler half: feeds the engine's hooks to the two request machines and turns their effects into the
 * next step's metadata. It does no I/O and knows the other engine only from handoffs. One record per
 * request, in one of two maps (a request is produced or consumed, never both), both bounded.
 */
import type { ConnectorError } from '@kvferry/connector-api'
import {
  instantPlus,
  limits,
  type BlockIds,
  type ConnectorScheduler,
  type KvTransferParams,
  type RankKey,
  type RequestId,
  type RequestView,
  type SchedulerComponents,
  type WorkerOutput,
} from '@kvferry/connector-api'
import { utf8Size } from './bytes.ts'
import {
  matchedTokenCount,
  stepConsumerRequest,
  type ConsumerRequestEffect,
  type ConsumerRequestEvent,
  type ConsumerRequestState,
} from './consumer-scheduler-state.ts'
import { HandoffWriter } from './handoff-writer.ts'
import { parseParams, type ParsedParams } from './handoff.ts'
import { MetadataOutbox, type PendingEntry } from './metadata-outbox.ts'
import type { Handoff } from './metadata.ts'
import type { PullOptions } from './options.ts'
import {
  stepProducerRequest,
  type ProducerRequestEffect,
  type ProducerRequestEvent,
  type ProducerRequestState,
} from './producer-scheduler-state.ts'
import { blocksToFill, readableBlocks } from './prompt-blocks.ts'

const refused: ConsumerRequestState = { kind: 'refused' }
const nothing = { delayFree: false, kvTransferParams: null } as const

export class PullScheduler implements ConnectorScheduler {
  readonly #components: SchedulerComponents
  readonly #options: PullOptions
  readonly #produced = new Map<RequestId, ProducerRequestState>()
  readonly #consumed = new Map<RequestId, ConsumerRequestState>()
  readonly #outbox = new MetadataOutbox()
  #writer: HandoffWriter | null = null

  constructor(components: SchedulerComponents, options: PullOptions) {
    this.#components = components
    this.#options = options
  }

  /** @throws ConnectorError ERR_KV_UNSUPPORTED (a rank is missing), ERR_KV_MESSAGE_INVALID: the engine can't start. */
  setHandshakeMetadata(byRank: ReadonlyMap<RankKey, Uint8Array>): void {
    const { blockTokens, engineId, incarnation } = this.#components
    this.#writer = new HandoffWriter({ engineId, incarnation }, blockTokens, byRank)
  }

  onNewRequest(request: RequestView): void {
    if (this.#intake(request) !== null || !this.#isFull(request)) return
    if (this.#parse(request).kind === 'none') return
    this.#components.metrics.add('kv_messages_refused_total', 1, { where: 'handoff' })
    this.#components.logger.warn('served without KV transfer: too many requests or too long an id')
  }

  getNumNewMatchedTokens(
    request: RequestView,
    computedTokenCount: number,
  ): { readonly tokens: number; readonly isAsync: boolean } {
    const state = this.#intake(request)
    const tokens =
      state === null
        ? 0
        : matchedTokenCount(state, computedTokenCount, this.#options.recomputeThreshold)
    return { tokens, isAsync: tokens > 0 }
  }

  /** @throws RangeError when the engine took another number of tokens than it was offered. */
  updateStateAfterAlloc(request: RequestView, blocks: BlockIds, externalTokenCount: number): void {
    const state = this.#intake(request)
    if (state !== null) {
      this.#stepConsumed(
        request.requestId,
        state,
        externalTokenCount === 0
          ? { kind: 'allocated' }
          : {
              kind: 'allocated-for-load',
              blockIds: this.#toFill(request, blocks, externalTokenCount),
            },
      )
      return
    }
    if (this.#parse(request).kind === 'produce') this.#allocateProduced(request)
  }

  buildConnectorMeta(): Uint8Array {
    return this.#outbox.drain(this.#components.clock.now())
  }

  updateConnectorOutput({ sent, received }: WorkerOutput): void {
    for (const requestId of sent) {
      const state = this.#produced.get(requestId)
      if (state !== undefined) this.#stepProduced(requestId, state, { kind: 'sent' })
    }
    for (const requestId of received) {
      const state = this.#consumed.get(requestId)
      if (state !== undefined) this.#stepConsumed(requestId, state, { kind: 'received' })
    }
  }

  requestFinished(
    request: RequestView,
    blocks: BlockIds,
  ): { readonly delayFree: boolean; readonly kvTransferParams: KvTransferParams | null } {
    const { requestId } = request
    const consumed = this.#consumed.get(requestId)
    if (consumed !== undefined) {
      this.#stepConsumed(requestId, consumed, { kind: 'finished' })
      return nothing
    }
    const produced = this.#produced.get(requestId)
    return produced === undefined ? nothing : this.#finishProduced(request, produced, blocks)
  }

  hasPendingPushWork(): boolean {
    return false
  }

  /** Also while something waits for a step to carry it: an idle engine would never deliver it. */
  hasPendingBlockFrees(): boolean {
    if (!this.#outbox.isEmpty) return true
    for (const { kind } of this.#produced.values()) if (kind === 'leased') return true
    for (const { kind } of this.#consumed.values()) if (kind === 'aborting') return true
    return false
  }

  async shutdown(): Promise<void> {
    this.#produced.clear()
    this.#consumed.clear()
    this.#outbox.clear()
  }

  #parse(request: RequestView): ParsedParams {
    const { engineId, blockTokens } = this.#components
    const { promptTokenCount, kvTransferParams } = request
    const tpSize = this.#writer?.tpSize ?? 1
    return parseParams(kvTransferParams, { engineId, blockTokens, tpSize, promptTokenCount })
  }

  /** The request's record if it came with a handoff. Idempotent: parsed and counted once per request. */
  #intake(request: RequestView): ConsumerRequestState | null {
    const known = this.#consumed.get(request.requestId)
    if (known !== undefined) return known
    const parsed = this.#parse(request)
    if (parsed.kind !== 'consume' && parsed.kind !== 'malformed') return null
    if (this.#isFull(request)) return null
    if (parsed.kind === 'malformed') this.#countRefused(request, parsed.error)
    const state = parsed.kind === 'consume' ? this.#offer(request, parsed.handoff) : refused
    this.#consumed.set(request.requestId, state)
    return state
  }

  /** The worker keeps the lease from now on, however long the request waits here. */
  #offer({ requestId }: RequestView, handoff: Handoff): ConsumerRequestState {
    this.#outbox.push({ kind: 'offer', requestId, handoff })
    return { kind: 'offered', handoff }
  }

  #allocateProduced(request: RequestView): void {
    const state = this.#produced.get(request.requestId) ?? { kind: 'new' }
    if (state.kind === 'new' && this.#isFull(request)) return
    this.#stepProduced(request.requestId, state, { kind: 'allocated' })
  }

  #finishProduced(
    request: RequestView,
    state: ProducerRequestState,
    blocks: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null } {
    const { requestId } = request
    const { blockTokens, clock, logger } = this.#components
    const writer = this.#writer
    const readable = readableBlocks(request, blocks, blockTokens)
    if (readable.kind === 'unreadable' || writer === null) {
      const reason = readable.kind === 'unreadable' ? readable.reason : 'no worker is registered'
      logger.debug('no handoff', { requestId, reason })
      this.#stepProduced(requestId, state, { kind: 'finished-unreadable' })
      return nothing
    }
    const leaseDeadline = instantPlus(clock.now(), this.#options.leaseDurationMs)
    this.#stepProduced(requestId, state, { kind: 'finished-readable' })
    const { blockIds } = readable
    const tokenCount = request.promptTokenCount
    const content = { blockIds, tokenCount, leaseDeadline }
    return { delayFree: true, kvTransferParams: writer.write(requestId, content) }
  }

  #toFill(request: RequestView, blocks: BlockIds, externalTokenCount: number): BlockIds {
    const { blockTokens } = this.#components
    return blocksToFill(request.promptTokenCount, externalTokenCount, blocks, blockTokens)
  }

  #stepProduced(
    requestId: RequestId,
    state: ProducerRequestState,
    event: ProducerRequestEvent,
  ): void {
    const { leaseDurationMs } = this.#options
    const now = this.#components.clock.now()
    const next = stepProducerRequest(state, event, now, { leaseDurationMs })
    keep(this.#produced, requestId, next.state)
    for (const effect of next.effects) this.#outbox.push(producedEntry(requestId, effect))
    // Hooks before `buildConnectorMeta` are inside a step already; an end may find the engine idle.
    if (event.kind !== 'allocated' && next.effects.length > 0) this.#components.requestStep()
  }

  #stepConsumed(
    requestId: RequestId,
    state: ConsumerRequestState,
    event: ConsumerRequestEvent,
  ): void {
    const next = stepConsumerRequest(state, event, this.#components.clock.now(), undefined)
    keep(this.#consumed, requestId, next.state)
    for (const effect of next.effects) this.#outbox.push(consumedEntry(requestId, effect))
    if (event.kind === 'finished' && next.effects.length > 0) this.#components.requestStep()
  }

  /** A request that would exceed the limits is served without KV transfer. */
  #isFull({ requestId }: RequestView): boolean {
    const count = this.#produced.size + this.#consumed.size
    return count >= limits.requestCountMax || utf8Size(requestId) > limits.idSizeBytesMax
  }

  #countRefused(request: RequestView, error: ConnectorError): void {
    const { logger, metrics } = this.#components
    metrics.add('kv_messages_refused_total', 1, { where: 'handoff' })
    logger.warn(error.message, { requestId: request.requestId, code: error.code })
  }
}

function keep<State extends { readonly kind: string }>(
  records: Map<RequestId, State>,
  requestId: RequestId,
  state: State,
): void {
  if (state.kind === 'ended') records.delete(requestId)
  else records.set(requestId, state)
}

function producedEntry(requestId: RequestId, effect: ProducerRequestEffect): PendingEntry {
  return effect.kind === 'lease'
    ? { kind: 'lease-until', requestId, deadline: effect.deadline }
    : { kind: effect.kind, requestId }
}

function consumedEntry(requestId: RequestId, effect: ConsumerRequestEffect): PendingEntry {
  if (effect.kind !== 'load') return { kind: effect.kind, requestId }
  return { kind: 'load', requestId, localBlockIds: effect.localBlockIds }
}
