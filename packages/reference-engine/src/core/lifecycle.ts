/**
 * What happens to requests outside the planning of a step: arrival, tokens, the end of loads, the end of
 * requests and the release of their blocks. Called by the step loop between steps only, so that no block
 * changes hands while kernels write.
 */
import { assert, assertNever, ConnectorError } from '@kvferry/connector-api'
import type {
  AnyConnectorError,
  ConnectorScheduler,
  FailedLoad,
  FinishReason,
  KvTransferParams,
  LoadFailurePolicy,
  RequestId,
  WorkerOutput,
} from '@kvferry/connector-api'
import type { BlockPool } from './block-pool.ts'
import type { RequestBlocks } from './request-blocks.ts'
import type { EngineRequest } from './request-state.ts'
import type { RequestTable } from './request-table.ts'
import type { ScheduledChunk } from './scheduler.ts'

export interface LifecycleListener {
  onToken(request: EngineRequest, token: number): void
  /** Once per request; `request.finishReason` and `request.error` say how. */
  onEnd(request: EngineRequest, kvTransferParams: KvTransferParams | null): void
}

export interface LifecycleParts {
  readonly pool: BlockPool
  readonly blocks: RequestBlocks
  readonly table: RequestTable
  readonly connector: ConnectorScheduler | null
  readonly loadFailurePolicy: LoadFailurePolicy
  readonly listener: LifecycleListener
  now(): number
}

export class Lifecycle {
  readonly #parts: LifecycleParts
  #endedRequestIds = new Set<RequestId>()
  #blocksLoaded = 0

  constructor(parts: LifecycleParts) {
    this.#parts = parts
  }

  /** Requests that ended since the last `takeEnded`: what the worker half hears in the next step. */
  get hasEnded(): boolean {
    return this.#endedRequestIds.size > 0
  }

  /** Blocks that loads have filled since the start. */
  get blocksLoaded(): number {
    return this.#blocksLoaded
  }

  takeEnded(): ReadonlySet<RequestId> {
    const ended = this.#endedRequestIds
    this.#endedRequestIds = new Set()
    return ended
  }

  add(request: EngineRequest): void {
    this.#parts.table.add(request)
    this.#parts.connector?.onNewRequest(request.view())
  }

  /** Its caller is gone: it ends, or its answer reached nobody. Unknown ones are ignored: nothing is kept for them. */
  abort(requestId: RequestId): void {
    const request = this.#parts.table.get(requestId)
    if (request === undefined) return
    if (!request.isAnswered) this.#end(request, 'aborted', null)
    else if (request.isSendPending) this.#parts.connector?.handoffUndelivered?.(requestId)
  }

  /** The step ended: its tokens are computed, and `sampled[i]` follows chunk i if that reached the end. */
  applyStep(
    chunks: readonly ScheduledChunk[],
    sampled: readonly (number | null)[],
    modelledEndMs: number,
  ): void {
    chunks.forEach(({ request, end }, index) => {
      // Ended inside the step: its bytes were wrong.
      if (request.isAnswered) return
      request.computedTokenCount = end
      this.#parts.blocks.cacheComputed(request)
      const token = sampled[index] ?? null
      if (token === null) return
      if (request.outputTokenCount === 0 && !request.isPromptLoaded) {
        request.prefillEndAtMs = modelledEndMs
      }
      request.appendToken(token)
      request.lastTokenAtMs = this.#parts.now()
      request.firstTokenAtMs ??= request.lastTokenAtMs
      this.#parts.listener.onToken(request, token)
      if (request.outputTokenCount === request.maxTokens) this.#end(request, 'length-capped', null)
    })
  }

  /** Makes blocks whose bytes were wrong unfindable. */
  distrust(blocks: readonly number[]): void {
    this.#parts.pool.evict(blocks)
  }

  /** A request whose KV held other bytes than its tokens demand: it ends, and no token follows from them. */
  failCorrupted(request: EngineRequest): void {
    if (request.isAnswered) return
    const status = 'KV bytes differ from what the tokens demand'
    const details = { operation: 'verify', peer: 'own memory', status }
    this.#end(request, 'failed', new ConnectorError('ERR_KV_TRANSFER_FAILED', status, details))
  }

  /** What the worker half found in this step. The scheduler half must have heard it already. */
  applyWorkerOutput(output: WorkerOutput): void {
    const failures = new Map(output.failed.map((failure) => [failure.requestId, failure]))
    for (const requestId of output.received) {
      this.#endReceive(this.#require(requestId, 'received'), failures.get(requestId) ?? null)
      failures.delete(requestId)
    }
    assert(failures.size === 0, 'a failed load was not also reported as received')
    for (const requestId of output.sent) this.#endSend(this.#require(requestId, 'sent'))
  }

  #require(requestId: RequestId, report: string): EngineRequest {
    const request = this.#parts.table.get(requestId)
    assert(request !== undefined, `${report} names request ${requestId}, which holds nothing`)
    return request
  }

  #endReceive(request: EngineRequest, failure: FailedLoad | null): void {
    const { pool, table, now } = this.#parts
    const { state } = request
    switch (state.kind) {
      case 'waiting-for-remote-kv':
        table.endHolding(request, now())
        request.loadReadyAtMs = now()
        request.enter({ kind: 'load-ended' })
        table.endedLoads.push(request)
        if (failure === null) this.#acceptLoad(request, state.loadStart, state.loadEnd)
        else this.#acceptFailure(request, state.loadStart, state.loadEnd, failure)
        return
      case 'finished-waiting-for-receive':
        if (state.isSendPending) {
          pool.convert(request.blocks, 'quarantined', 'leased')
          request.enter({ kind: 'finished-waiting-for-send' })
        } else {
          this.#release(request, 'quarantined')
        }
        return
      case 'waiting':
      case 'load-ended':
      case 'running':
      case 'preempted':
      case 'finished-waiting-for-send':
      case 'finished':
        assert(false, `received names request ${request.requestId}, which is ${state.kind}`)
        return
      default:
        assertNever(state)
    }
  }

  #acceptLoad(request: EngineRequest, loadStart: number, loadEnd: number): void {
    if (request.load !== null) request.load.outcome = 'loaded'
    request.isPromptLoaded = loadEnd >= request.promptTokenCount
    this.#acceptTokens(request, loadStart, loadEnd)
    // Logits come only out of a forward, so the last token of a complete prompt is computed once more.
    if (request.computedTokenCount === request.tokenCount) request.computedTokenCount--
  }

  #acceptTokens(request: EngineRequest, loadStart: number, loadEnd: number): void {
    request.computedTokenCount = loadEnd
    if (loadEnd === loadStart) return
    request.unverifiedLoad = { start: loadStart, end: loadEnd }
    const firstBlock = Math.floor(loadStart / this.#parts.blocks.blockTokens)
    const loadedCount = this.#parts.blocks.blockCountFor(loadEnd) - firstBlock
    request.verification.blocksLoaded += loadedCount
    this.#blocksLoaded += loadedCount
    this.#parts.blocks.cacheComputed(request)
  }

  #acceptFailure(
    request: EngineRequest,
    loadStart: number,
    loadEnd: number,
    failure: FailedLoad,
  ): void {
    if (request.load !== null) {
      request.load.outcome = 'failed'
      request.load.errorCode = failure.error.code
    }
    if (this.#parts.loadFailurePolicy === 'fail') {
      this.#end(request, 'failed', failure.error)
      return
    }
    const { blockTokens } = this.#parts.blocks
    const invalid = new Set(failure.blockIds.flatMap((group) => [...group]))
    // Without block ids the whole load is in doubt; local hits before it are not.
    const firstLoaded = Math.floor(loadStart / blockTokens)
    let firstInvalid = firstLoaded
    if (invalid.size > 0) {
      while (
        firstInvalid < request.blocks.length &&
        !invalid.has(request.blocks[firstInvalid] as number)
      ) {
        firstInvalid++
      }
    }
    request.isRecomputed = true
    this.#acceptTokens(request, loadStart, Math.min(loadEnd, firstInvalid * blockTokens))
    // All blocks named were other ones: nothing of the prompt is missing, except its logits.
    if (request.computedTokenCount === request.tokenCount) request.computedTokenCount--
  }

  #endSend(request: EngineRequest): void {
    const { state } = request
    if (state.kind === 'finished-waiting-for-receive' && state.isSendPending) {
      request.enter({ kind: 'finished-waiting-for-receive', isSendPending: false })
      return
    }
    assert(
      state.kind === 'finished-waiting-for-send',
      `sent names request ${request.requestId}, which is ${state.kind}`,
    )
    this.#release(request, 'leased')
  }

  #end(request: EngineRequest, reason: FinishReason, error: AnyConnectorError | null): void {
    const { connector, listener, now, pool, table } = this.#parts
    request.finishReason = reason
    request.error = error
    this.#endedRequestIds.add(request.requestId)
    table.unlist(request)
    const answer = connector?.requestFinished(request.view(), [Uint32Array.from(request.blocks)])
    const delayFree = answer?.delayFree === true
    if (request.state.kind === 'waiting-for-remote-kv') {
      // The load may still write: the blocks stay out of service until it has ended.
      pool.convert(request.blocks, 'owned', 'quarantined')
      request.enter({ kind: 'finished-waiting-for-receive', isSendPending: delayFree })
    } else if (delayFree) {
      pool.convert(request.blocks, 'owned', 'leased')
      request.enter({ kind: 'finished-waiting-for-send' })
      table.startHolding(request, now())
    } else {
      pool.release(request.blocks, 'owned')
      request.enter({ kind: 'finished' })
      table.drop(request)
    }
    listener.onEnd(request, answer?.kvTransferParams ?? null)
  }

  #release(request: EngineRequest, kind: 'leased' | 'quarantined'): void {
    const { now, pool, table } = this.#parts
    table.endHolding(request, now())
    pool.release(request.blocks, kind)
    request.enter({ kind: 'finished' })
    table.drop(request)
  }
}
