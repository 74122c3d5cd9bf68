/**
 * A small engine that serves by itself: vLLM's scheduler semantics around the connector's hooks, real
 * bytes, virtual time. It steps while it has something to compute, while the connector says that work or
 * frees are pending, and whenever the connector asks for a step; arrivals and aborts take effect between
 * steps. Every byte that it is told to rely on is checked, and every report that no request awaits is a
 * violation. It never decides anything that belongs to a connector.
 */
import type { WorkerOutput } from '../../connector.ts'
import type { Timer } from '../../clock.ts'
import { asRequestId } from '../../ids.ts'
import type { ReadyFence } from '../../transfer-agent.ts'
import type { Auditor } from './auditor.ts'
import { BatchScheduler } from './batch-scheduler.ts'
import type { StepPlan } from './batch-scheduler.ts'
import { BlockPool } from './block-pool.ts'
import type { FreeMode } from './block-pool.ts'
import { fillContent } from './content.ts'
import { EngineHost } from './engine-host.ts'
import type { EngineOptions } from './engine-host.ts'
import { freedBlockCheck, wrongTokens } from './memory-checks.ts'
import { RequestEnds } from './request-ends.ts'
import { createRequest, tokenCountOf } from './served-request.ts'
import type { RequestInit, ServedRequest } from './served-request.ts'
import type { World } from './world.ts'

export interface ServingOptions extends EngineOptions {
  readonly freeMode?: FreeMode
  readonly loadFailurePolicy?: 'recompute' | 'fail'
  readonly stepTokenCountMax?: number
  readonly runningCountMax?: number
  /** Of a step with tokens. */
  readonly stepMs?: number
  /** Between two steps of an engine that has nothing to compute and is told to go on stepping. */
  readonly idleStepMs?: number
}

export class ServingEngine {
  readonly host: EngineHost
  readonly pool: BlockPool
  readonly auditor: Auditor
  readonly requests = new Map<string, ServedRequest>()
  /** Killed, or stopped for a while: it takes no step. */
  isHalted = false
  killedAtMs: number | null = null
  /** Its connector was shut down: it serves on without one. */
  isClosed = false
  readonly #batch: BatchScheduler
  readonly #ends: RequestEnds
  readonly #options: ServingOptions
  #timer: Timer | null = null
  #isStepping = false
  #isStepWanted = false
  #inbox: (() => void)[] = []
  #finishedIds = new Set<string>()

  static async start(world: World, auditor: Auditor, options: ServingOptions) {
    const engine = new ServingEngine(world, auditor, options)
    await world.clock.wait(engine.host.register(), 1_000)
    return engine
  }

  constructor(world: World, auditor: Auditor, options: ServingOptions) {
    this.auditor = auditor
    this.#options = options
    this.host = new EngineHost(world, options)
    this.host.onStepWanted = () => this.requestStep()
    const { blockCount, blockTokens, scheduler } = this.host
    const mode = options.freeMode ?? 'poisoned'
    const onFree = freedBlockCheck(this.host, auditor, mode)
    this.pool = new BlockPool({ blockCount, mode, onFree })
    this.#batch = new BatchScheduler({
      hooks: scheduler,
      pool: this.pool,
      auditor,
      limits: {
        blockTokens,
        stepTokenCountMax: options.stepTokenCountMax ?? 64,
        runningCountMax: options.runningCountMax ?? 16,
      },
    })
    this.#ends = new RequestEnds({
      host: this.host,
      pool: this.pool,
      auditor,
      batch: this.#batch,
      loadFailurePolicy: options.loadFailurePolicy ?? 'recompute',
    })
  }

  get name(): string {
    return this.host.engineId
  }

  /** Blocks that requests own, or that ended ones left with the connector. */
  get heldBlockCount(): number {
    return this.pool.blockCount - this.pool.freeCount
  }

  submit(init: RequestInit): ServedRequest {
    const request = createRequest(init, this.host.world.clock.now(), this.host.blockTokens)
    this.requests.set(init.id, request)
    this.#between(() => {
      this.#hook('onNewRequest', () => this.#ends.arrive(request))
      this.#batch.waiting.push(request)
    })
    return request
  }

  /** Whoever asked for it is gone: it ends, or has ended, and then its answer reached nobody. Idempotent. */
  abort(id: string): void {
    this.#between(() => {
      const request = this.requests.get(id)
      if (request === undefined) return
      if (request.status === 'ended')
        this.#hook('handoffUndelivered', () => this.#ends.lose(request))
      else this.#hook('requestFinished', () => this.#end(request, 'aborted'))
    })
  }

  /** SIGKILL. */
  kill(): void {
    this.isHalted = true
    this.killedAtMs = this.host.world.clock.now()
    this.#timer?.stop()
    this.host.kill()
  }

  /** A step soon, once, however often it's asked for. */
  requestStep(afterMs = 0.1): void {
    if (this.isHalted) return
    if (this.#isStepping) {
      this.#isStepWanted = true
      return
    }
    if (this.#timer !== null) return
    this.#timer = this.host.world.clock.after(afterMs, () => void this.#run())
  }

  async #run(): Promise<void> {
    this.#timer = null
    this.#isStepping = true
    this.#isStepWanted = false
    try {
      await this.#step()
    } catch (error) {
      const { message, stack } = error as Error
      this.auditor.violate('hook', `${this.name}: ${message} ${stack?.split('\n')[1]?.trim()}`)
    }
    this.#isStepping = false
    if (!this.isHalted) this.#planNext()
  }

  async #step(): Promise<void> {
    const { host } = this
    this.#drainInbox()
    const plan = this.#batch.plan()
    const { scheduled, preempted } = plan
    const meta = host.buildMeta(
      scheduled.map(({ request, tokenCount, newBlocks }) => ({
        requestId: asRequestId(request.id),
        computedTokenCountAfter: request.computedTokenCount + tokenCount,
        newBlockIds: [Uint32Array.from(newBlocks)],
      })),
      preempted.map(({ id }) => id),
    )
    await host.handlePreemptions(meta)
    if (this.isHalted) return
    for (const request of preempted) {
      this.auditor.note(`${this.name} ${request.id} is preempted`)
      this.pool.release(request.blocks, request.id)
      request.blocks = []
    }
    host.bind(meta)
    const fences = scheduled.length === 0 ? null : this.#createFences()
    host.save(fences)
    const output = host.collect(this.#finishedIds)
    this.#finishedIds = new Set()
    if (scheduled.length > 0) await this.#forward(plan, fences ?? [])
    if (this.isHalted) return
    host.scheduler.updateConnectorOutput(output)
    await this.#act(output)
    for (const { request } of scheduled) await this.#sample(request)
    this.#drainInbox()
  }

  /** Null when an agent is broken: it can't be told when the forward has ended, and starts nothing. */
  #createFences(): ReadyFence[] | null {
    try {
      return this.host.ranks.map(({ agent }) => agent.createFence())
    } catch {
      return null
    }
  }

  /** The modelled forward: its bytes are there when its time is over, and only then. */
  async #forward({ scheduled }: StepPlan, fences: readonly ReadyFence[]): Promise<void> {
    const { world, ranks } = this.host
    await new Promise<void>((resolve) => {
      world.clock.after(this.#options.stepMs ?? 2, resolve)
    })
    if (this.isHalted) return
    for (const { request, tokenCount } of scheduled) {
      const start = request.computedTokenCount
      const blocks = Uint32Array.from(request.blocks)
      const end = start + tokenCount
      for (const { content } of ranks) {
        const range = { blocks, prompt: request.prompt, start, end }
        fillContent(world.fabric.kernels, content, range)
      }
      request.computedTokenCount = end
      this.#ends.cachePrefix(request)
    }
    for (const [rank, fence] of fences.entries()) ranks[rank]!.agent.signalFence(fence)
  }

  /** A request whose tokens are all computed gets one more, or ends. */
  async #sample(request: ServedRequest): Promise<void> {
    if (request.status !== 'running') return
    if (request.computedTokenCount < tokenCountOf(request)) return
    request.generatedTokenCount += 1
    if (request.generatedTokenCount < request.outputTokenCount) return
    const wrong = await wrongTokens(this.host, request, 0, request.computedTokenCount)
    if (wrong.length > 0) {
      this.auditor.violate('S2', `${this.name}: ${request.id} ends on wrong tokens ${wrong.join()}`)
    }
    if (!this.isHalted) this.#end(request, 'length-capped')
  }

  async #act({ sent, received, failed }: WorkerOutput): Promise<void> {
    for (const id of sent) this.#ends.sent(this.requests.get(id), id)
    for (const id of received) {
      const load = failed.find(({ requestId }) => requestId === id) ?? null
      const request = this.requests.get(id)
      await this.#ends.received(request, id, load)
      if (request?.finishReason === 'failed' && request.status !== 'ended') {
        this.#end(request, 'failed')
      }
    }
  }

  #end(request: ServedRequest, reason: 'length-capped' | 'aborted' | 'failed'): void {
    this.#finishedIds.add(request.id)
    this.#ends.end(request, reason)
  }

  #planNext(): void {
    const { scheduler } = this.host
    const canCompute = this.#batch.running.length > 0 || this.#batch.waiting.length > 0
    if (this.#isStepWanted || this.#inbox.length > 0 || this.#batch.running.length > 0) {
      this.requestStep()
      return
    }
    const isPending = scheduler.hasPendingPushWork() || scheduler.hasPendingBlockFrees()
    if (canCompute || (isPending && !this.isClosed)) {
      this.requestStep(this.#options.idleStepMs ?? 20)
    }
  }

  /** Now, or when the step that is under way has ended. */
  #between(action: () => void): void {
    if (this.isHalted) return
    if (this.#isStepping) this.#inbox.push(action)
    else action()
    this.requestStep()
  }

  #drainInbox(): void {
    const actions = this.#inbox
    this.#inbox = []
    for (const action of actions) action()
  }

  #hook(name: string, perform: () => void): void {
    try {
      perform()
    } catch (error) {
      this.auditor.violate('hook', `${this.name}: ${name} threw ${(error as Error).message}`)
    }
  }
}
