/**
 * An engine whose every move the test makes: admit, step, end. Blocks have real bytes and hooks come in the
 * contract's order; it steps by itself only when the connector asks for it. Blocks that come free are
 * overwritten at once, so that a transfer of freed blocks can't pass unseen. It throws on a report too many.
 */
import type {
  ConnectorScheduler,
  ConnectorWorker,
  FinishReason,
  KvTransferParams,
  RequestView,
  StatsSnapshot,
  WorkerOutput,
} from '../../connector.ts'
import { asRequestId } from '../../ids.ts'
import type { RequestId } from '../../ids.ts'
import type { KvCacheLayout } from '../../kv-memory.ts'
import { digestTokens } from '../../prompt-digest.ts'
import type { SideChannel } from '../../side-channel.ts'
import type { TransferAgent } from '../../transfer-agent.ts'
import { fillContent, tokensOf, wrongPositions } from './content.ts'
import type { ContentRange } from './content.ts'
import { EngineHost } from './engine-host.ts'
import type { EngineOptions } from './engine-host.ts'
import { poisonBlock } from './poison.ts'
import { toyBlockKeys } from './served-request.ts'
import type { World } from './world.ts'

/** A worker half knows at once what it has. */
const matchStepCountMax = 3

export interface EngineRequest {
  view: RequestView
  blocks: Uint32Array
  hitTokenCount: number
  params: KvTransferParams | null
  outcome: 'running' | 'loading' | 'loaded' | 'failed' | 'ended' | 'freed'
  errorCode: string | null
  failedBlocks: number[]
}

export class Engine {
  readonly world: World
  readonly host: EngineHost
  readonly requests = new Map<string, EngineRequest>()
  /** An engine that is stopped or killed takes no step. */
  isHalted = false
  free: number[]
  /** Called in the step that reports a good load. */
  onLoaded: (request: EngineRequest) => void = () => {}
  #isStepSet = false

  static async start(world: World, options: EngineOptions): Promise<Engine> {
    const engine = new Engine(world, options)
    await world.clock.wait(engine.host.register(), 1_000)
    return engine
  }

  constructor(world: World, options: EngineOptions) {
    this.world = world
    this.host = new EngineHost(world, options)
    this.host.onStepWanted = () => this.requestStep()
    this.free = Array.from({ length: this.host.blockCount }, (_, id) => id)
  }

  get engineId(): string {
    return this.host.engineId
  }
  get incarnation(): string {
    return this.host.incarnation
  }
  get scheduler(): ConnectorScheduler {
    return this.host.scheduler
  }
  get metrics(): Map<string, number> {
    return this.host.metrics
  }
  get logs(): string[] {
    return this.host.logs
  }
  get stats(): StatsSnapshot[] {
    return this.host.stats
  }
  get outputs(): WorkerOutput[] {
    return this.host.outputs
  }
  /** Of the first rank, as the next ones. */
  get agent(): TransferAgent {
    return this.host.ranks[0]!.agent
  }
  get sideChannel(): SideChannel {
    return this.host.ranks[0]!.sideChannel
  }
  get worker(): ConnectorWorker {
    return this.host.ranks[0]!.worker
  }
  get caches(): KvCacheLayout {
    return this.host.ranks[0]!.caches
  }

  /** SIGKILL: its agent, its connections, its steps. */
  kill(): void {
    this.isHalted = true
    this.host.kill()
  }

  /** A step soon, once, however often it's asked for. */
  requestStep(): void {
    if (this.#isStepSet || this.isHalted) return
    this.#isStepSet = true
    this.world.clock.after(1, () => {
      this.#isStepSet = false
      this.step()
    })
  }

  step(preempted: readonly string[] = []): WorkerOutput {
    if (this.isHalted) return { sent: [], received: [], failed: [] }
    const meta = this.host.buildMeta([], preempted)
    void this.host.handlePreemptions(meta)
    this.host.bind(meta)
    this.host.save(null)
    const output = this.host.collect()
    this.scheduler.updateConnectorOutput(output)
    this.#act(output)
    return output
  }

  /** A new request that gets blocks; `hitTokenCount` of its prompt are cached here. */
  admit(
    id: string,
    tokenCount: number,
    params: KvTransferParams | null,
    hitTokenCount = 0,
    text = 0,
  ): EngineRequest {
    const request = this.arrive(id, tokenCount, params, hitTokenCount, text)
    this.allocate(request)
    return request
  }

  /**
   * `text`: the prompt whose token ids it has (content.ts). Which bytes they get is said when they are
   * filled in, so tests in which every request has the same prompt leave it out.
   */
  arrive(
    id: string,
    tokenCount: number,
    params: KvTransferParams | null,
    hitTokenCount = 0,
    text = 0,
  ): EngineRequest {
    const request: EngineRequest = {
      view: {
        requestId: asRequestId(id),
        promptTokenCount: tokenCount,
        promptDigest: digestTokens(tokensOf(text, tokenCount)),
        digestOf: (count) => {
          const { promptTokenCount, computedTokenCount } = request.view
          const isKnown = count <= Math.max(promptTokenCount, computedTokenCount)
          return isKnown ? digestTokens(tokensOf(text, count)) : null
        },
        blockKeysOf: (count) => toyBlockKeys(text, count, this.host.blockTokens),
        computedTokenCount: hitTokenCount,
        kvTransferParams: params,
        finishReason: null,
      },
      blocks: new Uint32Array(),
      hitTokenCount,
      params: null,
      outcome: 'running',
      errorCode: null,
      failedBlocks: [],
    }
    this.requests.set(id, request)
    this.scheduler.onNewRequest(request.view)
    return request
  }

  /** As the scheduler half says; asked again in the next step where it doesn't know yet. */
  matched(request: EngineRequest): number {
    for (let steps = 0; ; steps += 1) {
      const { hitTokenCount, view } = request
      const { tokens, isAsync } = this.scheduler.getNumNewMatchedTokens(view, hitTokenCount)
      if (isAsync !== (tokens ?? 0) > 0) throw new Error('isAsync must mean tokens')
      if (tokens !== null) return tokens
      if (steps === matchStepCountMax) throw new Error(`no answer in ${steps} steps`)
      this.step()
    }
  }

  allocate(request: EngineRequest): void {
    const external = this.matched(request)
    if (external > 0) request.outcome = 'loading'
    const count = Math.ceil(request.view.promptTokenCount / this.host.blockTokens)
    if (this.free.length < count) throw new Error('out of blocks')
    // From both ends in turn: transfers of scattered blocks.
    request.blocks = Uint32Array.from({ length: count }, (_, index) =>
      index % 2 === 0 ? this.free.pop()! : this.free.shift()!,
    )
    this.scheduler.updateStateAfterAlloc(request.view, [request.blocks], external)
  }

  /** Ends a request; its blocks are freed now, or when its report comes. */
  finish(id: string, finishReason: FinishReason): KvTransferParams | null {
    const request = this.requests.get(id)!
    const wasLoading = request.outcome === 'loading'
    request.view = { ...request.view, finishReason }
    const { delayFree, kvTransferParams } = this.scheduler.requestFinished(request.view, [
      request.blocks,
    ])
    request.params = kvTransferParams
    request.outcome = 'ended'
    if (!delayFree && !wasLoading) this.#free(request)
    return kvTransferParams
  }

  /** Prefill of a prompt whose content follows from `prompt`, up to its handoff. */
  async prefill(id: string, prompt: number, tokenCount: number): Promise<KvTransferParams> {
    const request = this.admit(id, tokenCount, { do_remote_decode: true, do_remote_prefill: false })
    this.step()
    await this.fill(request, prompt)
    request.view = { ...request.view, computedTokenCount: tokenCount }
    const params = this.finish(id, 'length-capped')
    if (params === null) throw new Error(`no handoff: ${this.logs.join('; ')}`)
    // As a router would see it.
    return JSON.parse(JSON.stringify(params)) as KvTransferParams
  }

  async fill(request: EngineRequest, prompt: number): Promise<void> {
    for (const { content } of this.host.ranks) {
      fillContent(this.world.fabric.kernels, content, this.#rangeOf(request, prompt, 0))
    }
  }

  /** Whether the loaded tokens of the request are those of `prompt`, byte for byte, on every rank. */
  async isLoadedRight(request: EngineRequest, prompt: number): Promise<boolean> {
    const range = this.#rangeOf(request, prompt, request.hitTokenCount)
    const wrong = await Promise.all(
      this.host.ranks.map(({ content }) =>
        wrongPositions(this.world.fabric.kernels, content, range),
      ),
    )
    return range.end > range.start && wrong.every((positions) => positions.length === 0)
  }

  counter(name: string): number {
    return this.stats.at(-1)?.counters[name] ?? 0
  }

  #rangeOf({ blocks, view }: EngineRequest, prompt: number, start: number): ContentRange {
    return { blocks, prompt, start, end: view.promptTokenCount }
  }

  #act({ sent, received, failed }: WorkerOutput): void {
    for (const id of sent) {
      const request = this.requests.get(id)!
      if (request.outcome !== 'ended') throw new Error(`${id} sent while ${request.outcome}`)
      this.#free(request)
    }
    for (const id of received) this.#receive(id, failed)
  }

  #receive(id: RequestId, failed: WorkerOutput['failed']): void {
    const request = this.requests.get(id)!
    if (request.outcome === 'ended') return this.#free(request)
    if (request.outcome !== 'loading') throw new Error(`${id} received while ${request.outcome}`)
    const failure = failed.find(({ requestId }) => requestId === id)
    request.outcome = failure === undefined ? 'loaded' : 'failed'
    request.errorCode = failure?.error.code ?? null
    request.failedBlocks = failure === undefined ? [] : [...failure.blockIds[0]!]
    if (failure === undefined) this.onLoaded(request)
    // Back from its load: the hook is called again, with nothing external.
    this.scheduler.updateStateAfterAlloc(request.view, [request.blocks], 0)
  }

  #free(request: EngineRequest): void {
    request.outcome = 'freed'
    for (const id of request.blocks) {
      this.free.push(id)
      for (const { caches } of this.host.ranks) poisonBlock(caches, id)
    }
  }
}
