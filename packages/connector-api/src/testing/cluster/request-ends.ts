/**
 * How requests of the serving engine end, and whose their blocks are then: the hook, blocks that stay with
 * the connector until its reports, what a load's end means, exactly one report each. Owned by
 * serving-engine.ts.
 */
import type { FailedLoad } from '../../connector.ts'
import { asRequestId } from '../../ids.ts'
import type { Auditor } from './auditor.ts'
import type { BatchScheduler } from './batch-scheduler.ts'
import type { BlockPool } from './block-pool.ts'
import type { EngineHost } from './engine-host.ts'
import { wrongTokens } from './memory-checks.ts'
import { viewOf } from './served-request.ts'
import type { ServedRequest } from './served-request.ts'

export class RequestEnds {
  readonly #host: EngineHost
  readonly #pool: BlockPool
  readonly #auditor: Auditor
  readonly #batch: BatchScheduler
  readonly #policy: 'recompute' | 'fail'

  constructor(options: {
    readonly host: EngineHost
    readonly pool: BlockPool
    readonly auditor: Auditor
    readonly batch: BatchScheduler
    readonly loadFailurePolicy: 'recompute' | 'fail'
  }) {
    this.#host = options.host
    this.#pool = options.pool
    this.#auditor = options.auditor
    this.#batch = options.batch
    this.#policy = options.loadFailurePolicy
  }

  arrive(request: ServedRequest): void {
    this.#note(request, `arrives, ${request.promptTokenCount} tokens`)
    this.#host.scheduler.onNewRequest(viewOf(request))
  }

  /** Exactly once per request, before its blocks are freed. */
  end(request: ServedRequest, reason: 'length-capped' | 'aborted' | 'failed'): void {
    const wasLoading = request.status === 'loading'
    request.status = 'ended'
    request.finishReason = reason
    this.#batch.drop(request)
    const { delayFree, kvTransferParams } = this.#host.scheduler.requestFinished(viewOf(request), [
      Uint32Array.from(request.blocks),
    ])
    request.returnedParams = kvTransferParams
    if (wasLoading) request.awaited.add('received')
    if (delayFree) request.awaited.add('sent')
    this.#note(request, `ends ${reason}${request.awaited.size > 0 ? ', blocks are kept' : ''}`)
    if (request.awaited.size === 0) this.#release(request)
    request.onEnd?.(request)
  }

  /** The answer of one that ended reached nobody: told once, and only while the connector has its blocks. */
  lose(request: ServedRequest): void {
    if (!request.awaited.has('sent') || request.isAnswerLost) return
    request.isAnswerLost = true
    this.#note(request, 'is answered to nobody')
    this.#host.scheduler.handoffUndelivered?.(asRequestId(request.id))
  }

  sent(request: ServedRequest | undefined, id: string): void {
    if (request?.awaited.delete('sent') !== true) {
      this.#auditor.violate('once', `${this.#host.engineId}: nobody awaits "${id} sent"`)
      return
    }
    this.#note(request, 'is sent')
    if (request.awaited.size === 0) this.#release(request)
  }

  /** The load's end. A request that ended meanwhile only gets its blocks back. */
  async received(
    request: ServedRequest | undefined,
    id: string,
    load: FailedLoad | null,
  ): Promise<void> {
    if (request?.status === 'loading') return this.#loaded(request, load)
    if (request?.awaited.delete('received') !== true) {
      this.#auditor.violate('once', `${this.#host.engineId}: nobody awaits "${id} received"`)
      return
    }
    this.#note(request, 'is back')
    if (request.awaited.size === 0) this.#release(request)
  }

  /** Full blocks that are valid now may serve other requests. */
  cachePrefix(request: ServedRequest): void {
    const count = Math.floor(request.computedTokenCount / this.#host.blockTokens)
    for (let index = 0; index < count; index += 1) {
      this.#pool.cache(request.prompt, index, request.blocks[index]!)
    }
  }

  async #loaded(request: ServedRequest, load: FailedLoad | null): Promise<void> {
    const { hitTokenCount, externalTokenCount } = request
    request.hasLoaded = true
    let end = hitTokenCount + externalTokenCount
    if (load !== null) {
      request.loadError = load.error.code
      end = this.#validEnd(request, load, end)
    }
    this.#note(request, load === null ? 'is loaded' : `failed to load: ${load.error.code}`)
    const wrong = await wrongTokens(this.#host, request, hitTokenCount, end)
    if (wrong.length > 0) {
      const text = `${this.#host.engineId}: ${request.id} is reported loaded, tokens ${wrong.join()} are wrong`
      this.#auditor.violate('S2', text)
    }
    request.computedTokenCount = end
    if (load !== null && this.#policy === 'fail') {
      request.status = 'waiting'
      request.finishReason = 'failed'
      return
    }
    this.cachePrefix(request)
    this.#batch.requeue(request)
  }

  /** Tokens before the first block that the connector names: the rest is computed here. */
  #validEnd(request: ServedRequest, { blockIds, requestId }: FailedLoad, end: number): number {
    const invalid = new Set(blockIds[0])
    const first = request.blocks.findIndex((block) => invalid.has(block))
    if (first === -1 || invalid.size === 0) {
      this.#auditor.violate('S2', `${requestId}: a failed load names none of its blocks`)
      return request.hitTokenCount
    }
    const { blockTokens } = this.#host
    if (first * blockTokens < request.hitTokenCount) {
      this.#auditor.violate('S2', `${requestId}: a failed load names blocks that it never had`)
    }
    return Math.min(end, first * blockTokens)
  }

  #release(request: ServedRequest): void {
    this.#pool.release(request.blocks, request.id)
    request.blocks = []
    this.#note(request, 'is freed')
    this.#host.onStepWanted()
  }

  #note(request: ServedRequest, what: string): void {
    this.#auditor.note(`${this.#host.engineId} ${request.id} ${what}`)
  }
}
