/**
 * The history on the scheduler half: asks the worker half about prompts that may be there, promises what it
 * has reserved, names the blocks to restore into, and passes on the keys under which the blocks of an ended request
 * are kept. It holds no index. Owned by scheduler.ts.
 */
import {
  assert,
  blockKeyCount,
  blockKeySizeBytes,
  noDestination,
  type BlockIds,
  type BlockKeys,
  type MatchedBlocks,
  type RequestId,
  type RequestView,
  type SchedulerComponents,
} from '@kvferry/connector-api'
import { xavierLimits } from '../limits.ts'
import type { MetadataOutbox } from '../metadata.ts'
import { OfferedPrompts } from './offered-prompts.ts'
import {
  stepReturning,
  type ReturningEffect,
  type ReturningEvent,
  type ReturningState,
} from './returning-state.ts'

interface ReturningRecord {
  /** Of its prompt but the last token, or of the beginning of that. */
  readonly keys: BlockKeys
  readonly tokenCount: number
  state: ReturningState
}

export class ReturningRequests {
  readonly #components: SchedulerComponents
  readonly #outbox: MetadataOutbox
  readonly #records = new Map<RequestId, ReturningRecord>()
  readonly #offered = new OfferedPrompts(xavierLimits.offeredPromptCountMax)
  /** Of the latest question. They count up, so that another implementation of this half numbers them alike. */
  #question = 0
  #abortingCount = 0

  constructor(components: SchedulerComponents, outbox: MetadataOutbox) {
    this.#components = components
    this.#outbox = outbox
  }

  get isAborting(): boolean {
    return this.#abortingCount > 0
  }

  /**
   * A request whose KV goes to others, and is kept. Its keys are worked out here, once: of a prompt that is too
   * long for one entry those of its beginning.
   */
  add(request: RequestView): void {
    const tokenCount = request.promptTokenCount - 1
    const sizeBytesMax = xavierLimits.entryKeyCountMax * blockKeySizeBytes
    const keys = request.blockKeysOf?.(tokenCount).subarray(0, sizeBytesMax)
    if (keys === undefined) return
    this.#records.set(request.requestId, { keys, tokenCount, state: { kind: 'new' } })
  }

  /** Repeatable; null while the worker half hasn't answered. */
  matched(requestId: RequestId, computedTokenCount: number): number | null {
    const question = (this.#question + 1) >>> 0
    const effects = this.#step(requestId, { kind: 'match', computedTokenCount, question })
    for (const effect of effects) {
      if (effect.kind === 'ask') this.#question = question
      if (effect.kind === 'reply') return effect.tokens
    }
    return 0
  }

  answered({ requestId, question, blockCount }: MatchedBlocks): void {
    this.#step(requestId, { kind: 'answered', question, blockCount })
  }

  /** @throws InvariantError when the engine took other tokens than it was offered. */
  allocated(requestId: RequestId, blocks: BlockIds, externalTokenCount: number): void {
    this.#step(requestId, { kind: 'allocated', externalTokenCount }, blocks)
  }

  received(requestId: RequestId): void {
    this.#step(requestId, { kind: 'received' })
  }

  /** Ended with KV that its ticket holds. @returns the keys to keep it under; none where nothing is kept. */
  offer(requestId: RequestId): BlockKeys {
    const keys = this.#records.get(requestId)?.keys ?? new Uint8Array()
    this.#offered.add(keys)
    return keys
  }

  finished(requestId: RequestId): void {
    const effects = this.#step(requestId, { kind: 'finished' })
    // The engine may be idle, and a reservation pins blocks.
    if (effects.length > 0) this.#components.requestStep()
  }

  clear(): void {
    this.#records.clear()
    this.#offered.clear()
    this.#abortingCount = 0
  }

  /** Unknown ids are ignored: most requests have nothing to do with the history. */
  #step(
    requestId: RequestId,
    event: ReturningEvent,
    blocks: BlockIds = [],
  ): readonly ReturningEffect[] {
    const record = this.#records.get(requestId)
    if (record === undefined) return []
    const { clock, blockTokens } = this.#components
    const context = {
      ...{ blockTokens, tokenCount: record.tokenCount },
      isKnown: this.#offered.has(record.keys),
      renewAfterMs: xavierLimits.reservationRenewMs,
      giveUpAfterMs: xavierLimits.answerTimeoutMs,
    }
    const { state, effects } = stepReturning(record.state, event, clock.now(), context)
    this.#abortingCount +=
      Number(state.kind === 'aborting') - Number(record.state.kind === 'aborting')
    record.state = state
    if (state.kind === 'ended') this.#records.delete(requestId)
    for (const effect of effects) this.#perform(requestId, record, effect, blocks)
    return effects
  }

  #perform(
    requestId: RequestId,
    { keys }: ReturningRecord,
    effect: ReturningEffect,
    blocks: BlockIds,
  ): void {
    switch (effect.kind) {
      case 'reply':
        return
      case 'ask': {
        const { kind, question, firstBlock } = effect
        const wanted = keys.subarray(firstBlock * blockKeySizeBytes)
        return this.#outbox.push({ kind, requestId, question, keys: wanted })
      }
      case 'forget':
        return this.#outbox.push({ kind: effect.kind, requestId })
      case 'restore': {
        const blockIds = this.#destinations(effect, blocks, blockKeyCount(keys))
        return this.#outbox.push({ kind: effect.kind, requestId, blockIds })
      }
    }
  }

  /** For each reserved block, in order: where it goes. Blocks that the engine has already get none. */
  #destinations(
    { firstBlock, tokenStart, tokenEnd }: Extract<ReturningEffect, { kind: 'restore' }>,
    blocks: BlockIds,
    keyCount: number,
  ): Uint32Array {
    const { blockTokens } = this.#components
    const [ids, ...others] = blocks
    // With more groups nothing is handed over, so nothing is kept that could come back.
    assert(ids !== undefined && others.length === 0, `${blocks.length} KV groups to restore into`)
    const endBlock = Math.min(Math.ceil(tokenEnd / blockTokens), keyCount)
    const destinations = ids.slice(firstBlock, endBlock)
    return destinations.fill(noDestination, 0, tokenStart / blockTokens - firstBlock)
  }
}
