/**
 * All requests of the engine and the lists that the scheduler walks. Shared by the scheduler (before a
 * step) and the lifecycle (after it); holds no rules. Bounded by the number of accepted requests and,
 * for ended ones, by the pool: each holds at least one block.
 */
import { assert } from '@kvferry/connector-api'
import type { RequestId } from '@kvferry/connector-api'
import type { HoldKind } from './block-pool.ts'
import { HeldBlocks } from './held-blocks.ts'
import type { EngineRequest, RequestStateKind } from './request-state.ts'

export class RequestTable {
  /** Oldest first; preempted ones at the front. */
  readonly waiting: EngineRequest[] = []
  /** In order of admission; preemption takes from the end. */
  readonly running: EngineRequest[] = []
  /** Loads that ended, oldest first. */
  readonly endedLoads: EngineRequest[] = []
  readonly held = new HeldBlocks()
  readonly #byId = new Map<RequestId, EngineRequest>()

  get size(): number {
    return this.#byId.size
  }

  add(request: EngineRequest): void {
    assert(!this.#byId.has(request.requestId), `request ${request.requestId} exists already`)
    this.#byId.set(request.requestId, request)
    this.waiting.push(request)
  }

  get(requestId: RequestId): EngineRequest | undefined {
    return this.#byId.get(requestId)
  }

  all(): Iterable<EngineRequest> {
    return this.#byId.values()
  }

  drop(request: EngineRequest): void {
    this.#byId.delete(request.requestId)
  }

  /** Removes from whichever list the request's present state puts it in. */
  unlist(request: EngineRequest): void {
    const list = this.#listOf(request.state.kind)
    if (list === null) return
    const index = list.indexOf(request)
    assert(index >= 0, `request ${request.requestId} is in no list`)
    list.splice(index, 1)
  }

  /** Live requests that were given blocks. */
  *withBlocks(): Iterable<EngineRequest> {
    for (const request of this.#byId.values()) {
      if (!request.isAnswered && request.blocks.length > 0) yield request
    }
  }

  countIn(...kinds: readonly RequestStateKind[]): number {
    let count = 0
    for (const request of this.#byId.values()) if (kinds.includes(request.state.kind)) count++
    return count
  }

  startHolding(request: EngineRequest, nowMs: number): void {
    this.held.change(request.blocks.length, nowMs)
  }

  endHolding(request: EngineRequest, nowMs: number): void {
    this.held.change(-request.blocks.length, nowMs)
  }

  /** For `BlockPool.checkInvariants`: who holds what, by the requests' word. */
  holders(): { kind: HoldKind; blocks: readonly number[] }[] {
    return [...this.#byId.values()].map(({ state, blocks }) => {
      if (state.kind === 'finished-waiting-for-send') return { kind: 'leased', blocks }
      if (state.kind === 'finished-waiting-for-receive') return { kind: 'quarantined', blocks }
      return { kind: 'owned', blocks }
    })
  }

  #listOf(kind: RequestStateKind): EngineRequest[] | null {
    switch (kind) {
      case 'waiting':
      case 'preempted':
        return this.waiting
      case 'running':
        return this.running
      case 'load-ended':
        return this.endedLoads
      case 'waiting-for-remote-kv':
      case 'finished-waiting-for-send':
      case 'finished-waiting-for-receive':
      case 'finished':
        return null
    }
  }
}
