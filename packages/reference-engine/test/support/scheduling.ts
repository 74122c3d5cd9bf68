/** The scheduler and its lifecycle without kernels and time: every step is computed by decree. */
import {
  asRequestId,
  ConnectorError,
  digestTokens,
  type ConnectorScheduler,
  type FailedLoad,
  type LoadFailurePolicy,
} from '@kvferry/connector-api'
import { BlockPool } from '../../src/core/block-pool.ts'
import { Lifecycle } from '../../src/core/lifecycle.ts'
import { RequestBlocks } from '../../src/core/request-blocks.ts'
import { EngineRequest } from '../../src/core/request-state.ts'
import { RequestTable } from '../../src/core/request-table.ts'
import { Scheduler, type StepPlan } from '../../src/core/scheduler.ts'

export interface SchedulingOptions {
  readonly blockCount?: number
  readonly blockTokens?: number
  readonly maxNumSeqs?: number
  readonly maxNumBatchedTokens?: number
  readonly isPrefixCachingOn?: boolean
  readonly loadFailurePolicy?: LoadFailurePolicy
}

export type Offer = number | null

export class Scheduling {
  readonly pool: BlockPool
  readonly table = new RequestTable()
  readonly lifecycle: Lifecycle
  readonly scheduler: Scheduler
  /** External tokens that the connector offers, by request; absent = 0. Taken when committed. */
  readonly offers = new Map<string, Offer>()
  readonly delayFree = new Set<string>()
  readonly commits: { requestId: string; external: number; blockCount: number }[] = []
  readonly ended: { requestId: string; reason: string | null }[] = []
  readonly finishedHooks: string[] = []
  readonly undelivered: string[] = []
  #nowMs = 0

  constructor(options: SchedulingOptions = {}) {
    const { blockCount = 16, blockTokens = 4, isPrefixCachingOn = true } = options
    this.pool = new BlockPool(blockCount)
    const blocks = new RequestBlocks(this.pool, blockTokens, isPrefixCachingOn)
    const shared = {
      pool: this.pool,
      blocks,
      table: this.table,
      connector: this.#connector(),
      now: () => this.#nowMs++,
    }
    this.lifecycle = new Lifecycle({
      ...shared,
      loadFailurePolicy: options.loadFailurePolicy ?? 'recompute',
      listener: {
        onToken() {},
        onEnd: ({ requestId, finishReason }) =>
          this.ended.push({ requestId, reason: finishReason }),
      },
    })
    const { maxNumSeqs = 8, maxNumBatchedTokens = 64 } = options
    this.scheduler = new Scheduler({ ...shared, settings: { maxNumSeqs, maxNumBatchedTokens } })
  }

  /** A request whose prompt repeats `fill`: equal fills share prefixes. */
  add(requestId: string, promptTokenCount: number, maxTokens = 1, fill = requestId): EngineRequest {
    const bytes = new TextEncoder().encode(fill.repeat(promptTokenCount))
    const promptTokens = bytes.slice(0, promptTokenCount)
    const request = new EngineRequest(
      {
        requestId: asRequestId(requestId),
        promptTokens,
        promptDigest: digestTokens(promptTokens),
        maxTokens,
        kvTransferParams: null,
        receivedAtMs: 0,
      },
      this.#nowMs,
      () => new Uint8Array(),
    )
    this.lifecycle.add(request)
    return request
  }

  /** Plans and computes one step. */
  step(): StepPlan {
    const plan = this.scheduler.schedule()
    const sampled = plan.chunks.map(({ request, end }) => (end === request.tokenCount ? 65 : null))
    this.lifecycle.applyStep(plan.chunks, sampled, this.#nowMs)
    this.check()
    return plan
  }

  /** What one step computes, as `id:start-end`. */
  stepText(): string {
    const { chunks } = this.step()
    return chunks.map(({ request, start, end }) => `${request.requestId}:${start}-${end}`).join(' ')
  }

  receive(...requestIds: readonly string[]): void {
    this.#apply(requestIds, [], [])
  }

  fail(requestId: string, blockIds: readonly number[]): void {
    const error = new ConnectorError('ERR_KV_DEADLINE', 'late', { what: 'load', deadlineMs: 1 })
    const failed = {
      requestId: asRequestId(requestId),
      blockIds: [Uint32Array.from(blockIds)],
      error,
    }
    this.#apply([requestId], [], [failed])
  }

  send(...requestIds: readonly string[]): void {
    this.#apply([], requestIds, [])
  }

  check(): void {
    this.pool.checkInvariants(this.table.holders())
  }

  stateOf(requestId: string): string {
    return this.table.get(asRequestId(requestId))?.state.kind ?? 'gone'
  }

  #apply(received: readonly string[], sent: readonly string[], failed: FailedLoad[]): void {
    this.lifecycle.applyWorkerOutput({
      received: received.map(asRequestId),
      sent: sent.map(asRequestId),
      failed,
    })
    this.check()
  }

  #connector(): ConnectorScheduler {
    return {
      setHandshakeMetadata() {},
      onNewRequest() {},
      getNumNewMatchedTokens: ({ requestId }, computed) => {
        const offer = this.offers.get(requestId)
        if (offer === null) return { tokens: null, isAsync: true }
        const tokens = Math.max(0, (offer ?? 0) - computed)
        return { tokens, isAsync: tokens > 0 }
      },
      updateStateAfterAlloc: ({ requestId }, [blocks], external) => {
        this.offers.delete(requestId)
        this.commits.push({ requestId, external, blockCount: blocks?.length ?? 0 })
      },
      buildConnectorMeta: () => new Uint8Array(),
      updateConnectorOutput() {},
      requestFinished: ({ requestId }) => {
        this.finishedHooks.push(requestId)
        return { delayFree: this.delayFree.has(requestId), kvTransferParams: null }
      },
      handoffUndelivered: (requestId) => void this.undelivered.push(requestId),
      hasPendingPushWork: () => false,
      hasPendingBlockFrees: () => false,
      shutdown: async () => {},
    }
  }
}
