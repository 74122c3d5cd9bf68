/**
 * The requests whose KV comes from another engine, on the scheduler half: feeds the consumer machine, from
 * the arrival of a request to its end. What a request came with is the protocol's own; here only its tokens
 * count.
 */
import type {
  AnyConnectorError,
  BlockIds,
  RequestId,
  RequestView,
  SchedulerComponents,
} from '../index.ts'
import {
  matchedTokenCount,
  stepConsumerRequest,
  type ConsumerRequestEffect,
  type ConsumerRequestEvent,
  type ConsumerRequestState,
} from './consumer-request.ts'
import { blocksToFill } from './prompt-blocks.ts'

/** What the worker half is told of one request. */
export type ConsumerEntry =
  | {
      readonly kind: 'load'
      readonly requestId: RequestId
      readonly localBlockIds: BlockIds
      readonly tokenEnd: number
    }
  | { readonly kind: 'release' | 'abort'; readonly requestId: RequestId }

/** Where entries wait for a step to carry them. */
export interface ConsumerOutbox {
  push(entry: ConsumerEntry): void
}

export class ConsumerRequests {
  readonly #components: SchedulerComponents
  readonly #outbox: ConsumerOutbox
  readonly #states = new Map<RequestId, ConsumerRequestState>()
  #abortingCount = 0

  constructor(components: SchedulerComponents, outbox: ConsumerOutbox) {
    this.#components = components
    this.#outbox = outbox
  }

  get size(): number {
    return this.#states.size
  }

  get isAborting(): boolean {
    return this.#abortingCount > 0
  }

  has(requestId: RequestId): boolean {
    return this.#states.has(requestId)
  }

  /** `tokenEnd`: of the tokens that the producer has, the prompt's. */
  offer(requestId: RequestId, tokenEnd: number): void {
    this.#states.set(requestId, { kind: 'offered', tokenEnd })
  }

  /** Its params are malformed: counted once, computed here. */
  refuse({ requestId }: RequestView, error: AnyConnectorError): void {
    this.#states.set(requestId, { kind: 'refused' })
    const { logger, metrics } = this.#components
    metrics.add('kv_messages_refused_total', 1, { where: 'handoff' })
    logger.warn(error.message, { requestId, code: error.code })
  }

  /** Tokens to be had beyond the local hit. Pure, repeatable. */
  matched(requestId: RequestId, computedTokenCount: number, recomputeThreshold: number): number {
    const state = this.#states.get(requestId)
    if (state === undefined) return 0
    return matchedTokenCount(state, computedTokenCount, recomputeThreshold)
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
    this.#abortingCount = 0
  }

  /** Unknown ids are ignored: most requests come without params. */
  #step(requestId: RequestId, event: ConsumerRequestEvent): void {
    const state = this.#states.get(requestId)
    if (state === undefined) return
    const next = stepConsumerRequest(state, event, this.#components.clock.now(), undefined)
    this.#abortingCount +=
      Number(next.state.kind === 'aborting') - Number(state.kind === 'aborting')
    if (next.state.kind === 'ended') this.#states.delete(requestId)
    else this.#states.set(requestId, next.state)
    for (const effect of next.effects) this.#outbox.push(entryOf(requestId, effect))
    if (event.kind === 'finished' && next.effects.length > 0) this.#components.requestStep()
  }
}

function entryOf(requestId: RequestId, effect: ConsumerRequestEffect): ConsumerEntry {
  if (effect.kind !== 'load') return { kind: effect.kind, requestId }
  const { localBlockIds, tokenEnd } = effect
  return { kind: 'load', requestId, localBlockIds, tokenEnd }
}
