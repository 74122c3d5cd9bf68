/**
 * The requests whose KV goes to other engines, on the scheduler half: follows the blocks that they get, and
 * says in the very step whose forward computes them which tokens may leave. Owned by scheduler.ts.
 */
import type {
  BlockIds,
  RequestId,
  RequestView,
  ScheduledRequest,
  SchedulerComponents,
} from '@kvferry/connector-api'
import { readableBlocks } from '@kvferry/connector-api/protocol'
import type { PromptFacts } from '@kvferry/connector-api/remote-writes'
import type { MetadataOutbox } from './metadata-outbox.ts'
import {
  stepProducerRequest,
  type ProducerRequestEffect,
  type ProducerRequestEvent,
  type ProducerRequestState,
} from './producer-request-state.ts'

interface ProducerRecord {
  readonly requestId: RequestId
  readonly transferId: string
  readonly prompt: PromptFacts
  /** In token order. */
  blockIds: number[]
  /** More than one KV group: nothing is handed over. */
  isUnsupported: boolean
  /** Tokens that the step which is being built will have computed. */
  computedTokenCount: number
  /** Blocks that the worker half was told. */
  toldBlockCount: number
  /** The worker half was told that it is being computed. */
  isToldBegun: boolean
  state: ProducerRequestState
}

export class ProducerRequests {
  readonly #components: SchedulerComponents
  readonly #isProgressive: boolean
  readonly #outbox: MetadataOutbox
  readonly #records = new Map<RequestId, ProducerRecord>()
  readonly #transferIds = new Set<string>()
  #heldCount = 0

  constructor(components: SchedulerComponents, isProgressive: boolean, outbox: MetadataOutbox) {
    this.#components = components
    this.#isProgressive = isProgressive
    this.#outbox = outbox
  }

  get size(): number {
    return this.#records.size
  }

  get hasHeldBlocks(): boolean {
    return this.#heldCount > 0
  }

  has(requestId: RequestId): boolean {
    return this.#records.has(requestId)
  }

  /** A transfer has one producer: a second request of the same id would be taken for it. */
  hasTransfer(transferId: string): boolean {
    return this.#transferIds.has(transferId)
  }

  add({ requestId, promptTokenCount, promptDigest }: RequestView, transferId: string): void {
    this.#transferIds.add(transferId)
    const prompt = { tokenCount: promptTokenCount, digest: promptDigest }
    this.#records.set(requestId, {
      ...{ requestId, transferId, prompt, blockIds: [], isUnsupported: false },
      ...{ computedTokenCount: 0, toldBlockCount: 0, isToldBegun: false },
      state: { kind: 'announced', wasHandedOver: false },
    })
    // At once: a registration for a prefill that nobody has heard of is not kept for long.
    this.#outbox.push({ kind: 'announce', requestId, transferId, prompt })
  }

  allocated(requestId: RequestId, blocks: BlockIds): void {
    const record = this.#records.get(requestId)
    if (record === undefined) return
    record.isUnsupported ||= blocks.length !== 1
    record.blockIds = [...(blocks[0] ?? [])]
  }

  /** The steps' tokens; called while the step's metadata is built. */
  scheduled(requests: readonly ScheduledRequest[]): void {
    for (const { requestId, computedTokenCountAfter, newBlockIds } of requests) {
      const record = this.#records.get(requestId)
      // Whoever asks twice about one step hears of it once: nothing more was computed.
      if (record === undefined || computedTokenCountAfter <= record.computedTokenCount) continue
      record.isUnsupported ||= newBlockIds.length > 1
      record.blockIds.push(...(newBlockIds[0] ?? []))
      record.computedTokenCount = computedTokenCountAfter
      if (!record.isUnsupported) this.#computed(record)
    }
  }

  preempted(requestIds: readonly RequestId[]): void {
    for (const requestId of requestIds) {
      const record = this.#records.get(requestId)
      if (record === undefined) continue
      record.blockIds = []
      record.toldBlockCount = 0
      record.computedTokenCount = 0
      const { isToldBegun } = record
      record.isToldBegun = false
      const isTold = this.#step(record, { kind: 'preempted' })
      if (isToldBegun && !isTold) this.#outbox.push({ kind: 'preempt', requestId })
    }
  }

  /** Whether the engine keeps the blocks until the worker's report. */
  finish(request: RequestView, blocks: BlockIds): boolean {
    const record = this.#records.get(request.requestId)
    if (record === undefined) return false
    const { promptTokenCount } = request
    const { blockTokens } = this.#components
    const { kind } = readableBlocks(request, promptTokenCount, blocks, blockTokens)
    const isReadable = kind === 'readable'
    this.#step(record, { kind: isReadable ? 'finished-readable' : 'finished-unreadable' })
    // An end may find the engine idle.
    if (!this.#outbox.isEmpty) this.#components.requestStep()
    return record.state.kind === 'held'
  }

  sent(requestId: RequestId): void {
    const record = this.#records.get(requestId)
    if (record?.state.kind === 'held') this.#step(record, { kind: 'sent' })
  }

  /** Its answer reached nobody. */
  undelivered(requestId: RequestId): void {
    const record = this.#records.get(requestId)
    if (record?.state.kind !== 'held') return
    this.#step(record, { kind: 'undelivered' })
    // It finds the engine idle, perhaps.
    this.#components.requestStep()
  }

  /** What was handed over may be read until the worker's report, also while everything closes. */
  clear(): void {
    for (const [requestId, { state, transferId }] of this.#records) {
      if (state.kind !== 'announced' || state.wasHandedOver) continue
      this.#records.delete(requestId)
      this.#transferIds.delete(transferId)
    }
  }

  #computed(record: ProducerRecord): void {
    const isWhole = record.computedTokenCount >= record.prompt.tokenCount
    if (isWhole) this.#step(record, { kind: 'computed-all' })
    else if (this.#isProgressive) this.#step(record, { kind: 'computed-part' })
    else if (!record.isToldBegun) {
      record.isToldBegun = true
      this.#outbox.push({ kind: 'begin', requestId: record.requestId })
    }
  }

  /** Whether the worker half is told of it. */
  #step(record: ProducerRecord, event: ProducerRequestEvent): boolean {
    const now = this.#components.clock.now()
    const { state, effects } = stepProducerRequest(record.state, event, now, undefined)
    this.#heldCount += Number(state.kind === 'held') - Number(record.state.kind === 'held')
    record.state = state
    if (state.kind === 'ended') {
      this.#records.delete(record.requestId)
      this.#transferIds.delete(record.transferId)
    }
    for (const effect of effects) this.#perform(record, effect)
    return effects.length > 0
  }

  #perform(record: ProducerRecord, effect: ProducerRequestEffect): void {
    const { requestId } = record
    switch (effect.kind) {
      case 'hand-over':
        return this.#handOver(record, effect.isLast)
      case 'abort':
        return this.#outbox.push({ kind: 'abort-source', requestId })
      case 'preempt':
      case 'finish':
      case 'withdraw':
      case 'undelivered':
        return this.#outbox.push({ kind: effect.kind, requestId })
    }
  }

  #handOver(record: ProducerRecord, isLast: boolean): void {
    const { requestId, prompt, blockIds, toldBlockCount } = record
    const { blockTokens } = this.#components
    const tokenEnd = Math.min(record.computedTokenCount, prompt.tokenCount)
    const end = Math.ceil(tokenEnd / blockTokens)
    this.#outbox.push({
      ...{ kind: 'computed', requestId, tokenEnd, isLast },
      firstBlock: toldBlockCount,
      blockIds: Uint32Array.from(blockIds.slice(toldBlockCount, end)),
    })
    record.toldBlockCount = end
  }
}
