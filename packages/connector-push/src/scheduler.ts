/**
 * Scheduler half: sorts the engine's requests into those whose KV goes to others and those whose KV comes
 * from others, and passes the hooks on. It does no I/O and knows other engines only from params. Bounded:
 * what would exceed it is served without KV transfer.
 */
import {
  limits,
  type BlockIds,
  type ConnectorScheduler,
  type KvTransferParams,
  type RankKey,
  type RequestId,
  type RequestView,
  type SchedulerComponents,
  type StepView,
  type WorkerOutput,
} from '@kvferry/connector-api'
import {
  ChangedGauge,
  ConsumerRequests,
  invalidField,
  isWellFormed,
  utf8Size,
} from '@kvferry/connector-api/protocol'
import type { ProducerPlace } from '@kvferry/connector-api/remote-writes'
import { createOutbox } from './metadata-outbox.ts'
import type { PushOptions } from './options.ts'
import { parseParams, type ParsedParams } from './params.ts'
import { ProducerRequests } from './producer-requests.ts'

export class PushScheduler implements ConnectorScheduler {
  readonly #components: SchedulerComponents
  readonly #options: PushOptions
  readonly #outbox = createOutbox()
  readonly #produced: ProducerRequests
  readonly #consumed: ConsumerRequests
  readonly #openGauge: ChangedGauge
  /** 1 until they have registered. */
  #tpSize = 1

  constructor(components: SchedulerComponents, options: PushOptions) {
    this.#components = components
    this.#options = options
    this.#produced = new ProducerRequests(components, options.progressive, this.#outbox)
    this.#consumed = new ConsumerRequests(components, this.#outbox)
    this.#openGauge = new ChangedGauge(components.metrics, 'kv_requests_open')
  }

  /** What peers need to know they learn from one another; here only how many ranks there are. */
  setHandshakeMetadata(byRank: ReadonlyMap<RankKey, Uint8Array>): void {
    this.#tpSize = byRank.size
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
    this.#produced.allocated(request.requestId, blocks)
  }

  buildConnectorMeta({ scheduled, preemptedRequestIds }: StepView): Uint8Array {
    this.#produced.preempted(preemptedRequestIds)
    this.#produced.scheduled(scheduled)
    this.#openGauge.show(this.#openCount)
    return this.#outbox.drain()
  }

  updateConnectorOutput({ sent, received }: WorkerOutput): void {
    for (const requestId of sent) this.#produced.sent(requestId)
    for (const requestId of received) this.#consumed.received(requestId)
    this.#openGauge.show(this.#openCount)
  }

  requestFinished(
    request: RequestView,
    blocks: BlockIds,
  ): { readonly delayFree: boolean; readonly kvTransferParams: KvTransferParams | null } {
    this.#consumed.finished(request.requestId)
    const delayFree = this.#produced.finish(request, blocks)
    this.#openGauge.show(this.#openCount)
    return { delayFree, kvTransferParams: null }
  }

  handoffUndelivered(requestId: RequestId): void {
    this.#produced.undelivered(requestId)
  }

  /** Blocks wait for their WRITE, or for the report of its end. */
  hasPendingPushWork(): boolean {
    return this.#produced.hasHeldBlocks
  }

  /** Also while something waits for a step to carry it: an idle engine would never deliver it. */
  hasPendingBlockFrees(): boolean {
    return !this.#outbox.isEmpty || this.#consumed.isAborting
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
    switch (parsed.kind) {
      case 'malformed':
        return this.#consumed.refuse(request, parsed.error)
      case 'consume':
        return this.#offer(request, parsed.transferId, parsed.producer)
      case 'produce':
        return this.#produce(request, parsed.transferId)
    }
  }

  /** The worker shakes hands with the producer from now on, while that computes. */
  #offer(request: RequestView, transferId: string, producer: ProducerPlace): void {
    const { requestId, promptTokenCount, promptDigest } = request
    this.#consumed.offer(requestId, promptTokenCount)
    const prompt = { tokenCount: promptTokenCount, digest: promptDigest }
    this.#outbox.push({ kind: 'offer', requestId, transferId, producer, prompt })
  }

  #produce(request: RequestView, transferId: string): void {
    if (!this.#produced.hasTransfer(transferId)) this.#produced.add(request, transferId)
    else this.#consumed.refuse(request, invalidField('transfer_id', transferId))
  }

  #isKnown({ requestId }: RequestView): boolean {
    return this.#consumed.has(requestId) || this.#produced.has(requestId)
  }

  #parse({ kvTransferParams }: RequestView): ParsedParams {
    const { engineId } = this.#components
    return parseParams(kvTransferParams, { engineId, tpSize: this.#tpSize })
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
