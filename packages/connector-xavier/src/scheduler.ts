/**
 * Scheduler half: sorts the engine's requests into those whose KV goes to others (and may be in the history) and
 * those whose KV comes from others, and passes the hooks on. It does no I/O and knows other engines only from handoffs. Bounded:
 * what would exceed it is served without KV transfer.
 */
import {
  limits,
  type BlockIds,
  type ConnectorScheduler,
  type RankKey,
  type RequestId,
  type RequestView,
  type SchedulerComponents,
  type WorkerOutput,
} from '@kvferry/connector-api'
import {
  ChangedGauge,
  ConsumerRequests,
  isWellFormed,
  utf8Size,
} from '@kvferry/connector-api/protocol'
import { parseParams, type Handoff, type ParsedParams } from './handoff.ts'
import { ReturningRequests } from './history/returning-requests.ts'
import { createOutbox } from './metadata.ts'
import type { XavierOptions } from './options.ts'
import { ProducerRequests, type Finish } from './producer-requests.ts'

export class XavierScheduler implements ConnectorScheduler {
  readonly #components: SchedulerComponents
  readonly #options: XavierOptions
  readonly #outbox = createOutbox()
  readonly #produced: ProducerRequests
  readonly #consumed: ConsumerRequests
  readonly #openGauge: ChangedGauge
  readonly #returning: ReturningRequests

  constructor(components: SchedulerComponents, options: XavierOptions) {
    this.#components = components
    this.#options = options
    this.#produced = new ProducerRequests(components, this.#outbox, options.unclaimedTicketMs)
    this.#consumed = new ConsumerRequests(components, this.#outbox)
    this.#openGauge = new ChangedGauge(components.metrics, 'kv_requests_open')
    this.#returning = new ReturningRequests(components, this.#outbox)
  }

  /** @throws ConnectorError ERR_KV_UNSUPPORTED (not one rank), ERR_KV_MESSAGE_INVALID: the engine can't start. */
  setHandshakeMetadata(byRank: ReadonlyMap<RankKey, Uint8Array>): void {
    this.#produced.setHandshakeMetadata(byRank)
  }

  /** The worker half claims the ticket from now on, however long the request waits here. */
  onNewRequest(request: RequestView): void {
    this.#intake(request)
    if (this.#isKnown(request) || !this.#isFull(request)) return
    if (this.#parse(request).kind === 'none') return
    this.#components.metrics.add('kv_messages_refused_total', 1, { where: 'handoff' })
    this.#components.logger.warn(
      'served without KV transfer: too many requests, or an id that no message carries',
    )
  }

  getNumNewMatchedTokens(
    request: RequestView,
    computedTokenCount: number,
  ): { readonly tokens: number | null; readonly isAsync: boolean } {
    this.#intake(request)
    const { requestId } = request
    const { recomputeThreshold } = this.#options
    const tokens = this.#produced.has(requestId)
      ? this.#returning.matched(requestId, computedTokenCount)
      : this.#consumed.matched(requestId, computedTokenCount, recomputeThreshold)
    return { tokens, isAsync: (tokens ?? 0) > 0 }
  }

  /** @throws RangeError when the engine took another number of tokens than it was offered. */
  updateStateAfterAlloc(request: RequestView, blocks: BlockIds, externalTokenCount: number): void {
    this.#intake(request)
    this.#consumed.allocated(request.requestId, blocks, externalTokenCount)
    this.#returning.allocated(request.requestId, blocks, externalTokenCount)
    this.#produced.allocated(request.requestId)
  }

  buildConnectorMeta(): Uint8Array {
    this.#openGauge.show(this.#openCount)
    return this.#outbox.drain()
  }

  updateConnectorOutput({ sent, received, matched = [] }: WorkerOutput): void {
    for (const answer of matched) this.#returning.answered(answer)
    for (const requestId of sent) this.#produced.sent(requestId)
    for (const requestId of received) {
      this.#consumed.received(requestId)
      this.#returning.received(requestId)
    }
    this.#openGauge.show(this.#openCount)
  }

  requestFinished(request: RequestView, blocks: BlockIds): Finish {
    const { requestId } = request
    this.#consumed.finished(requestId)
    const finish = this.#produced.finish(request, blocks, () => this.#returning.offer(requestId))
    this.#returning.finished(requestId)
    this.#openGauge.show(this.#openCount)
    return finish
  }

  handoffUndelivered(requestId: RequestId): void {
    this.#produced.undelivered(requestId)
  }

  hasPendingPushWork(): boolean {
    return false
  }

  /** Also while something waits for a step to carry it: an idle engine would never deliver it. */
  hasPendingBlockFrees(): boolean {
    const isAborting = this.#consumed.isAborting || this.#returning.isAborting
    return !this.#outbox.isEmpty || this.#produced.hasHeldBlocks || isAborting
  }

  async shutdown(): Promise<void> {
    this.#produced.clear()
    this.#consumed.clear()
    this.#returning.clear()
    this.#outbox.clear()
  }

  /** Idempotent: parsed and counted once per request. */
  #intake(request: RequestView): void {
    if (request.kvTransferParams === null || this.#isKnown(request)) return
    const parsed = this.#parse(request)
    if (parsed.kind === 'none' || this.#isFull(request)) return
    switch (parsed.kind) {
      case 'malformed':
        return this.#consumed.refuse(request, parsed.error)
      case 'produce':
        this.#produced.add(request.requestId)
        if (this.#produced.keepsHistory) this.#returning.add(request)
        return
      case 'consume':
        return this.#offer(request, parsed.handoff)
    }
  }

  #offer({ requestId, promptDigest }: RequestView, handoff: Handoff): void {
    const { producer, ticket, tokenCount } = handoff
    this.#consumed.offer(requestId, tokenCount)
    const prompt = { tokenCount, digest: promptDigest }
    this.#outbox.push({ kind: 'offer', requestId, transferId: ticket, producer, prompt })
    // The engine may wait with others for room, or for nothing at all.
    this.#components.requestStep()
  }

  #isKnown({ requestId }: RequestView): boolean {
    return this.#consumed.has(requestId) || this.#produced.has(requestId)
  }

  #parse({ kvTransferParams, promptTokenCount }: RequestView): ParsedParams {
    const { engineId } = this.#components
    return parseParams(kvTransferParams, { engineId, promptTokenCount })
  }

  get #openCount(): number {
    return this.#produced.size + this.#consumed.size
  }

  /** A request that would exceed the limits is served without KV transfer. */
  #isFull({ requestId }: RequestView): boolean {
    const isSendable = isWellFormed(requestId) && utf8Size(requestId) <= limits.idSizeBytesMax
    return this.#openCount >= limits.requestCountMax || !isSendable
  }
}
