/**
 * What runs in the next step, with vLLM's rules: running requests first, then ended loads, then the
 * queue in order of arrival, within a token budget; chunked prefill; admission by free blocks less
 * reservations; preemption of the youngest by recompute. Called by the step loop only, on the core's
 * thread; does no I/O, never waits, and changes nothing while a step computes. What happens to a
 * request after its step is `lifecycle.ts`.
 */
import { assert } from '@kvferry/connector-api'
import type { ConnectorScheduler, RequestId } from '@kvferry/connector-api'
import type { BlockPool } from './block-pool.ts'
import type { RequestBlocks } from './request-blocks.ts'
import type { RequestTable } from './request-table.ts'
import type { EngineRequest } from './request-state.ts'

export interface SchedulerSettings {
  readonly maxNumSeqs: number
  readonly maxNumBatchedTokens: number
}

/** Tokens `[start, end)` of one request, computed in one step. */
export interface ScheduledChunk {
  readonly request: EngineRequest
  readonly start: number
  readonly end: number
  /** Blocks taken for it that no hook has named yet. */
  readonly newBlocks: readonly number[]
}

const noBlocks: readonly number[] = []

export interface StepPlan {
  readonly stepIndex: number
  readonly chunks: readonly ScheduledChunk[]
  readonly preemptedRequestIds: readonly RequestId[]
  /** A request waits for the connector's answer (`tokens: null`) and must be asked again. */
  readonly isRetryNeeded: boolean
}

interface Draft {
  readonly chunks: ScheduledChunk[]
  readonly preempted: EngineRequest[]
  budget: number
  isRetryNeeded: boolean
}

export interface SchedulerParts {
  readonly settings: SchedulerSettings
  readonly pool: BlockPool
  readonly blocks: RequestBlocks
  readonly table: RequestTable
  readonly connector: ConnectorScheduler | null
  now(): number
}

export class Scheduler {
  readonly #parts: SchedulerParts
  #stepIndex = 0

  constructor(parts: SchedulerParts) {
    this.#parts = parts
  }

  /** Plans one step and allocates its blocks. Every chunk must be computed before the next call. */
  schedule(): StepPlan {
    const draft: Draft = {
      chunks: [],
      preempted: [],
      budget: this.#parts.settings.maxNumBatchedTokens,
      isRetryNeeded: false,
    }
    this.#scheduleRunning(draft)
    // Freed blocks go to the requests that needed them; new ones would take them away again.
    if (draft.preempted.length === 0 && this.#admitEndedLoads(draft)) this.#admitWaiting(draft)
    return {
      stepIndex: this.#stepIndex++,
      chunks: draft.chunks,
      preemptedRequestIds: draft.preempted.map((request) => request.requestId),
      isRetryNeeded: draft.isRetryNeeded,
    }
  }

  #scheduleRunning(draft: Draft): void {
    const { running } = this.#parts.table
    for (let index = 0; index < running.length && draft.budget > 0; index++) {
      const request = running[index] as EngineRequest
      const heldCount = request.blocks.length
      if (!this.#growOrPreempt(request, draft)) break
      const isGrown = request.blocks.length > heldCount
      this.#addChunk(request, draft, isGrown ? request.blocks.slice(heldCount) : noBlocks)
    }
  }

  /** Preempts from the back until `request` has its blocks; false when it had to go itself. */
  #growOrPreempt(request: EngineRequest, draft: Draft): boolean {
    const { table, blocks } = this.#parts
    const end = request.computedTokenCount + this.#chunkSize(request, draft)
    while (!blocks.growTo(request, end)) {
      const victim = table.running.pop()
      assert(victim !== undefined, 'a running request is not in the list')
      this.#preempt(victim, draft)
      if (victim === request) return false
    }
    return true
  }

  #preempt(victim: EngineRequest, draft: Draft): void {
    this.#parts.blocks.reset(victim)
    victim.preemptionCount++
    victim.enter({ kind: 'preempted' })
    this.#parts.table.waiting.unshift(victim)
    draft.preempted.push(victim)
  }

  /** False when one of them had to stay out: then nothing younger may take the blocks it needs. */
  #admitEndedLoads(draft: Draft): boolean {
    const { table, blocks, connector } = this.#parts
    while (table.endedLoads.length > 0) {
      if (!this.#hasRoom(draft)) return false
      const request = table.endedLoads[0] as EngineRequest
      const end = request.computedTokenCount + this.#chunkSize(request, draft)
      if (!blocks.growTo(request, end)) {
        this.#breakDeadlock(draft)
        return false
      }
      table.endedLoads.shift()
      connector?.updateStateAfterAlloc(request.view(), [Uint32Array.from(request.blocks)], 0)
      this.#run(request, draft)
    }
    return true
  }

  /** Ended loads hold blocks. When only they do and none can go on, the youngest gives its blocks up. */
  #breakDeadlock(draft: Draft): void {
    const { running, endedLoads } = this.#parts.table
    if (running.length > 0 || endedLoads.length < 2) return
    this.#preempt(endedLoads.pop() as EngineRequest, draft)
  }

  #admitWaiting(draft: Draft): void {
    const { waiting } = this.#parts.table
    const skipped: EngineRequest[] = []
    while (waiting.length > 0 && this.#hasRoom(draft)) {
      const outcome = this.#admit(waiting[0] as EngineRequest, draft)
      if (outcome === 'no-blocks') break
      const request = waiting.shift() as EngineRequest
      if (outcome === 'ask-again') skipped.push(request)
    }
    draft.isRetryNeeded = skipped.length > 0
    waiting.unshift(...skipped)
  }

  #admit(request: EngineRequest, draft: Draft): 'admitted' | 'ask-again' | 'no-blocks' {
    const { blocks, connector, table, now } = this.#parts
    const prefix = blocks.findCachedPrefix(request)
    const prefixTokenCount = prefix.length * blocks.blockTokens
    const offer = connector?.getNumNewMatchedTokens(request.view(), prefixTokenCount)
    if (offer?.tokens === null) return 'ask-again'
    const externalTokenCount = offer?.tokens ?? 0
    assert(externalTokenCount === 0 || offer?.isAsync === true, 'the connector offers a sync load')
    const loadEnd = prefixTokenCount + externalTokenCount
    // Local hits may go further: a preempted request finds its own output again.
    assert(
      externalTokenCount === 0 || loadEnd <= request.promptTokenCount,
      'the connector offers more than the prompt',
    )
    if (!blocks.canAdmit(request, prefix, this.#reservedBlockCount())) return 'no-blocks'

    blocks.share(request, prefix)
    const isLoad = externalTokenCount > 0
    const end = isLoad ? loadEnd : prefixTokenCount + this.#chunkSize(request, draft)
    assert(blocks.growTo(request, end), 'an admitted request finds no blocks')
    request.scheduledAtMs ??= now()
    connector?.updateStateAfterAlloc(
      request.view(),
      [Uint32Array.from(request.blocks)],
      externalTokenCount,
    )
    if (isLoad) {
      request.enter({ kind: 'waiting-for-remote-kv', loadStart: prefixTokenCount, loadEnd })
      request.load = { allocAtMs: now(), outcome: null, errorCode: null, sample: null }
      table.startHolding(request, now())
    } else {
      this.#run(request, draft)
    }
    return 'admitted'
  }

  #run(request: EngineRequest, draft: Draft): void {
    request.enter({ kind: 'running' })
    this.#parts.table.running.push(request)
    this.#addChunk(request, draft, noBlocks)
  }

  #addChunk(request: EngineRequest, draft: Draft, newBlocks: readonly number[]): void {
    const start = request.computedTokenCount
    const end = start + this.#chunkSize(request, draft)
    assert(end > start, `request ${request.requestId} has nothing to compute`)
    draft.chunks.push({ request, start, end, newBlocks })
    draft.budget -= end - start
  }

  #chunkSize(request: EngineRequest, draft: Draft): number {
    return Math.min(request.tokenCount - request.computedTokenCount, draft.budget)
  }

  #hasRoom(draft: Draft): boolean {
    const { settings, table } = this.#parts
    return draft.budget > 0 && table.running.length < settings.maxNumSeqs
  }

  /** Blocks that admitted requests will still need for the tokens they have: no one else may count on them. */
  #reservedBlockCount(): number {
    let count = 0
    for (const request of this.#parts.table.withBlocks()) {
      count += this.#parts.blocks.missingBlockCount(request)
    }
    return count
  }
}
