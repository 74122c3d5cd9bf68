/**
 * Decides what one engine step computes, with vLLM's semantics around the hooks: running requests first,
 * chunked prefill, preemption of the youngest, then admission in order: prefix hit, what the connector has
 * beyond it, blocks or nothing, commit. Owned by serving-engine.ts; moves no byte.
 */
import type { ConnectorScheduler } from '../../connector.ts'
import type { Auditor } from './auditor.ts'
import type { BlockPool } from './block-pool.ts'
import { tokenCountOf, viewOf } from './served-request.ts'
import type { ServedRequest } from './served-request.ts'

export interface BatchLimits {
  readonly blockTokens: number
  readonly stepTokenCountMax: number
  readonly runningCountMax: number
}

export interface Chunk {
  readonly request: ServedRequest
  readonly tokenCount: number
  /** Taken for this chunk, and not named at admission. */
  readonly newBlocks: readonly number[]
}

export interface StepPlan {
  readonly scheduled: readonly Chunk[]
  /** Their blocks stay theirs until the workers have handled it. */
  readonly preempted: readonly ServedRequest[]
}

export class BatchScheduler {
  readonly waiting: ServedRequest[] = []
  readonly running: ServedRequest[] = []
  readonly #hooks: ConnectorScheduler
  readonly #pool: BlockPool
  readonly #auditor: Auditor
  readonly #limits: BatchLimits
  #budget = 0

  constructor(options: {
    readonly hooks: ConnectorScheduler
    readonly pool: BlockPool
    readonly auditor: Auditor
    readonly limits: BatchLimits
  }) {
    this.#hooks = options.hooks
    this.#pool = options.pool
    this.#auditor = options.auditor
    this.#limits = options.limits
  }

  plan(): StepPlan {
    this.#budget = this.#limits.stepTokenCountMax
    const scheduled: Chunk[] = []
    const preempted: ServedRequest[] = []
    for (const request of [...this.running]) {
      if (this.#budget === 0) break
      if (!this.running.includes(request)) continue
      const tokenCount = this.#chunkOf(request)
      const heldCount = request.blocks.length
      if (!this.#makeRoom(request, tokenCount, preempted)) continue
      this.#budget -= tokenCount
      scheduled.push({ request, tokenCount, newBlocks: request.blocks.slice(heldCount) })
    }
    // Whoever had to give way would only be given way to.
    if (preempted.length === 0) this.#admit(scheduled)
    return { scheduled, preempted }
  }

  /** Back to the head of the queue, with what it has computed and loaded. */
  requeue(request: ServedRequest): void {
    request.status = 'waiting'
    this.waiting.unshift(request)
  }

  drop(request: ServedRequest): void {
    for (const list of [this.waiting, this.running]) {
      const index = list.indexOf(request)
      if (index !== -1) list.splice(index, 1)
    }
  }

  #chunkOf(request: ServedRequest): number {
    return Math.min(this.#budget, tokenCountOf(request) - request.computedTokenCount)
  }

  #blockCountFor(tokenCount: number): number {
    return Math.ceil(tokenCount / this.#limits.blockTokens)
  }

  /** Blocks for the next chunk of a running request, at the cost of younger ones. */
  #makeRoom(request: ServedRequest, tokenCount: number, preempted: ServedRequest[]): boolean {
    const wanted = this.#blockCountFor(request.computedTokenCount + tokenCount)
    const missing = Math.max(0, wanted - request.blocks.length)
    if (missing <= this.#pool.freeCount) {
      request.blocks.push(...this.#pool.take(missing, request.id))
      return true
    }
    const victim = this.running.at(-1)
    if (victim === undefined || preempted.length > 0) return false
    this.running.pop()
    victim.computedTokenCount = 0
    victim.hitTokenCount = 0
    preempted.push(victim)
    this.requeue(victim)
    return false
  }

  #admit(scheduled: Chunk[]): void {
    // Those that hold blocks first: behind one that waits for theirs, nobody would ever move.
    const holding = this.waiting.filter(({ blocks }) => blocks.length > 0)
    const others = this.waiting.filter(({ blocks }) => blocks.length === 0)
    for (const request of [...holding, ...others]) {
      if (this.#budget === 0 || this.running.length >= this.#limits.runningCountMax) return
      const verdict = request.blocks.length > 0 ? this.#resume(request) : this.#start(request)
      if (verdict === 'no-room') return
      if (verdict === 'later') continue
      this.drop(request)
      if (verdict === 'loading') {
        request.status = 'loading'
        continue
      }
      request.status = 'running'
      this.running.push(request)
      const tokenCount = this.#chunkOf(request)
      this.#budget -= tokenCount
      scheduled.push({ request, tokenCount, newBlocks: [] })
    }
  }

  /** It comes back from its load; the last token is computed for its logits in any case. */
  #resume(request: ServedRequest): 'running' | 'no-room' {
    const { computedTokenCount } = request
    if (computedTokenCount === tokenCountOf(request)) request.computedTokenCount -= 1
    const wanted = this.#blockCountFor(request.computedTokenCount + this.#chunkOf(request))
    const missing = Math.max(0, wanted - request.blocks.length)
    if (missing > this.#pool.freeCount) {
      request.computedTokenCount = computedTokenCount
      return 'no-room'
    }
    request.blocks.push(...this.#pool.take(missing, request.id))
    this.#hooks.updateStateAfterAlloc(viewOf(request), [Uint32Array.from(request.blocks)], 0)
    return 'running'
  }

  #start(request: ServedRequest): 'running' | 'loading' | 'later' | 'no-room' {
    const { blockTokens } = this.#limits
    // At least one token is left to be computed.
    const hitCountMax = Math.floor((tokenCountOf(request) - 1) / blockTokens)
    const hits = this.#pool.lookup(request.prompt, hitCountMax)
    const hitTokenCount = hits.length * blockTokens
    const external = this.#match(request, hitTokenCount)
    if (external === null) return 'later'
    const known = hitTokenCount + external
    const next = external > 0 ? 0 : Math.min(this.#budget, tokenCountOf(request) - known)
    const count = this.#blockCountFor(known + next) - hits.length
    if (!this.#pool.canTake(hits, count)) return 'no-room'
    this.#pool.share(hits, request.id)
    request.blocks = [...hits, ...this.#pool.take(count, request.id)]
    request.hitTokenCount = hitTokenCount
    request.computedTokenCount = hitTokenCount
    request.externalTokenCount = external
    const blocks = [Uint32Array.from(request.blocks)]
    this.#hooks.updateStateAfterAlloc(viewOf(request), blocks, external)
    return external > 0 ? 'loading' : 'running'
  }

  /** Asked twice, since the answer must be repeatable. */
  #match(request: ServedRequest, hitTokenCount: number): number | null {
    const view = { ...viewOf(request), computedTokenCount: hitTokenCount }
    const first = this.#hooks.getNumNewMatchedTokens(view, hitTokenCount)
    const again = this.#hooks.getNumNewMatchedTokens(view, hitTokenCount)
    if (first.tokens !== again.tokens || first.isAsync !== again.isAsync) {
      this.#auditor.violate(
        'S6',
        `${request.id}: asked twice, answered ${first.tokens}, ${again.tokens}`,
      )
    }
    const { tokens, isAsync } = first
    if (tokens === null) return null
    const isSane =
      Number.isInteger(tokens) &&
      tokens >= 0 &&
      isAsync === tokens > 0 &&
      (tokens === 0 || hitTokenCount + tokens <= request.promptTokenCount)
    if (!isSane) this.#auditor.violate('hook', `${request.id}: match of ${tokens}, ${isAsync}`)
    return isSane ? tokens : 0
  }
}
