/**
 * The requests that came with a handoff, on the scheduler half: feeds the consumer machine, from the
 * arrival of a request to its end. Owned by scheduler.ts.
 */
import type {
  AnyConnectorError,
  BlockIds,
  RequestId,
  RequestView,
  SchedulerComponents,
} from '@kvferry/connector-api'
import { blocksToFill } from '@kvferry/connector-api/protocol'
import {
  matchedTokenCount,
  stepConsumerRequest,
  type ConsumerRequestEffect,
  type ConsumerRequestEvent,
  type ConsumerRequestState,
} from '@kvferry/connector-api/protocol'
import type { MetadataOutbox, PendingEntry } from './metadata-outbox.ts'
import type { Handoff } from './metadata.ts'

export class ConsumerRequests {
  readonly #components: SchedulerComponents
  readonly #outbox: MetadataOutbox
  readonly #states = new Map<RequestId, ConsumerRequestState>()

  constructor(components: SchedulerComponents, outbox: MetadataOutbox) {
    this.#components = components
    this.#outbox = outbox
  }

  get size(): number {
    return this.#states.size
  }

  get isAborting(): boolean {
    for (const { kind } of this.#states.values()) if (kind === 'aborting') return true
    return false
  }

  has(requestId: RequestId): boolean {
    return this.#states.has(requestId)
  }

  /** The worker keeps the lease from now on, however long the request waits here. */
  offer({ requestId, promptTokenCount }: RequestView, handoff: Handoff): void {
    const tokenEnd = Math.min(handoff.tokenCount, promptTokenCount)
    this.#states.set(requestId, { kind: 'offered', tokenEnd })
    this.#outbox.push({ kind: 'offer', requestId, handoff })
  }

  /** Its handoff is malformed: counted once, computed here. */
  refuse({ requestId }: RequestView, error: AnyConnectorError): void {
    this.#states.set(requestId, { kind: 'refused' })
    const { logger, metrics } = this.#components
    metrics.add('kv_messages_refused_total', 1, { where: 'handoff' })
    logger.warn(error.message, { requestId, code: error.code })
  }

  /** Tokens to be had beyond the local hit. Pure, repeatable. */
  matched(requestId: RequestId, computedTokenCount: number, recomputeThreshold: number): number {
    const state = this.#states.get(requestId)
    return state === undefined
      ? 0
      : matchedTokenCount(state, computedTokenCount, recomputeThreshold)
  }

  /** @throws RangeError when the engine took another number of tokens than it was offered. */
  allocated(requestId: RequestId, blocks: BlockIds, externalTokenCount: number): void {
    const state = this.#states.get(requestId)
    if (state === undefined) return
    if (externalTokenCount === 0 || state.kind !== 'offered') {
      this.#step(requestId, { kind: 'allocated' })
      return
    }
    const { blockTokens } = this.#components
    const blockIds = blocksToFill(state.tokenEnd, externalTokenCount, blocks, blockTokens)
    this.#step(requestId, { kind: 'allocated-for-load', blockIds })
  }

  received(requestId: RequestId): void {
    this.#step(requestId, { kind: 'received' })
  }

  finished(requestId: RequestId): void {
    this.#step(requestId, { kind: 'finished' })
  }

  clear(): void {
    this.#states.clear()
  }

  /** Unknown ids are ignored: most requests come without a handoff. */
  #step(requestId: RequestId, event: ConsumerRequestEvent): void {
    const state = this.#states.get(requestId)
    if (state === undefined) return
    const next = stepConsumerRequest(state, event, this.#components.clock.now(), undefined)
    if (next.state.kind === 'ended') this.#states.delete(requestId)
    else this.#states.set(requestId, next.state)
    for (const effect of next.effects) this.#outbox.push(entryOf(requestId, effect))
    if (event.kind === 'finished' && next.effects.length > 0) this.#components.requestStep()
  }
}

function entryOf(requestId: RequestId, effect: ConsumerRequestEffect): PendingEntry {
  if (effect.kind !== 'load') return { kind: effect.kind, requestId }
  const { localBlockIds, tokenEnd } = effect
  return { kind: 'load', requestId, localBlockIds, tokenEnd }
}
