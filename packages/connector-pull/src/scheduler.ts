/**
 * Scheduler half: sorts the engine's requests into those whose KV others will read and those that came with
 * a handoff (in bidirectional mode a request may be both), and passes the hooks on. It does no I/O and
 * knows other engines only from handoffs. Bounded: what would exceed it is served without KV transfer.
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
import { parseParams, type ParsedParams } from './handoff.ts'
import { MetadataOutbox } from './metadata-outbox.ts'
import type { Handoff } from './metadata.ts'
import type { PullOptions } from './options.ts'
import { ProducerRequests, type Finish } from './producer-requests.ts'

export class PullScheduler implements ConnectorScheduler {
  readonly #components: SchedulerComponents
  readonly #options: PullOptions
  readonly #outbox = new MetadataOutbox()
  readonly #produced: ProducerRequests
  readonly #consumed: ConsumerRequests
  readonly #openGauge: ChangedGauge
  #nextLoadId = 0

  constructor(components: SchedulerComponents, options: PullOptions) {
    this.#components = components
    this.#options = options
    this.#produced = new ProducerRequests(components, options, this.#outbox)
    this.#consumed = new ConsumerRequests(components, this.#outbox)
    this.#openGauge = new ChangedGauge(components.metrics, 'kv_requests_open')
  }

  /** @throws ConnectorError ERR_KV_UNSUPPORTED (a rank is missing), ERR_KV_MESSAGE_INVALID: the engine can't start. */
  setHandshakeMetadata(byRank: ReadonlyMap<RankKey, Uint8Array>): void {
    this.#produced.setHandshakeMetadata(byRank)
  }

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
  ): { readonly tokens: number; readonly isAsync: boolean } {
    this.#intake(request)
    const { recomputeThreshold } = this.#options
    const tokens = this.#consumed.matched(request.requestId, computedTokenCount, recomputeThreshold)
    return { tokens, isAsync: tokens > 0 }
  }

  /** @throws RangeError when the engine took another number of tokens than it was offered. */
  updateStateAfterAlloc(request: RequestView, blocks: BlockIds, externalTokenCount: number): void {
    this.#intake(request)
    this.#consumed.allocated(request.requestId, blocks, externalTokenCount)
    this.#produced.allocated(request.requestId)
  }

  buildConnectorMeta(): Uint8Array {
    this.#openGauge.show(this.#openCount)
    return this.#outbox.drain(this.#components.clock.now())
  }

  updateConnectorOutput({ sent, received }: WorkerOutput): void {
    for (const requestId of sent) this.#produced.sent(requestId)
    for (const requestId of received) this.#consumed.received(requestId)
    this.#openGauge.show(this.#openCount)
  }

  requestFinished(request: RequestView, blocks: BlockIds): Finish {
    this.#consumed.finished(request.requestId)
    const finish = this.#produced.finish(request, blocks)
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
    return !this.#outbox.isEmpty || this.#produced.hasLeases || this.#consumed.isAborting
  }

  async shutdown(): Promise<void> {
    this.#produced.clear()
    this.#consumed.clear()
    this.#outbox.clear()
  }

  /** Idempotent: parsed and counted once per request. */
  #intake(request: RequestView): void {
    if (request.kvTransferParams === null || this.#isKnown(request)) return
    const parsed = this.#parse(request)
    if (parsed.kind === 'none' || this.#isFull(request)) return
    const { requestId } = request
    switch (parsed.kind) {
      case 'malformed':
        this.#consumed.refuse(request, parsed.error)
        return
      case 'consume':
        this.#offer(request, parsed.handoff)
        if (this.#options.bidirectional) this.#produced.add(requestId, 'return')
        return
      case 'produce':
        this.#produced.add(requestId, 'prefill')
        if (parsed.error !== null) this.#consumed.refuse(request, parsed.error)
        else if (parsed.returned !== null) this.#offer(request, parsed.returned)
    }
  }

  /** The worker keeps the lease from now on, however long the request waits here. */
  #offer({ requestId, promptTokenCount }: RequestView, handoff: Handoff): void {
    this.#consumed.offer(requestId, Math.min(handoff.tokenCount, promptTokenCount))
    const loadId = this.#nextLoadId
    this.#nextLoadId = (loadId + 1) % 2 ** 32
    this.#outbox.push({ kind: 'offer', requestId, loadId, handoff })
  }

  #isKnown({ requestId }: RequestView): boolean {
    return this.#consumed.has(requestId) || this.#produced.has(requestId)
  }

  #parse(request: RequestView): ParsedParams {
    const { engineId, blockTokens } = this.#components
    const { promptTokenCount, promptDigest, kvTransferParams } = request
    return parseParams(kvTransferParams, {
      ...{ engineId, blockTokens, promptTokenCount, promptDigest },
      digestOf: (tokenCount) => request.digestOf?.(tokenCount),
      tpSize: this.#produced.tpSize,
      isBidirectional: this.#options.bidirectional,
    })
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
