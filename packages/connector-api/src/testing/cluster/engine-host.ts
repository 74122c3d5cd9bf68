/**
 * One life of an engine as its connector sees it: both halves with their ports, one agent, side channel,
 * cache and worker half per rank, and the hooks in the contract's order. It owns no block and decides
 * nothing: the scripted and the serving engine do, and drive it.
 */
import { asEngineId, asIncarnation, asRequestId, rankKey } from '../../ids.ts'
import type { Clock } from '../../clock.ts'
import type { KvferryConfig } from '../../config.ts'
import type {
  CommonComponents,
  ConnectorFactory,
  ConnectorScheduler,
  ConnectorWorker,
  ScheduledRequest,
  StatsSnapshot,
  WorkerOutput,
} from '../../connector.ts'
import type { HistoryProvider } from '../../history.ts'
import type { KvCacheLayout } from '../../kv-memory.ts'
import { silentLogger } from '../../logger.ts'
import type { LogFields, Logger } from '../../logger.ts'
import type { MetricLabels } from '../../metrics.ts'
import type { ProcessTable } from '../../processes.ts'
import type { SideChannel } from '../../side-channel.ts'
import type { ReadyFence, TransferAgent } from '../../transfer-agent.ts'
import type { RankContent } from './content.ts'
import { configOf, createCaches, defaultBlockTokens } from './layout.ts'
import { RankAggregator } from './rank-aggregator.ts'
import type { World } from './world.ts'

export interface EngineOptions {
  readonly engineId: string
  /** Default `<engineId>-1`. */
  readonly incarnation?: string
  readonly port?: number
  /** Of the connector. */
  readonly options?: Readonly<Record<string, unknown>>
  readonly config?: Partial<KvferryConfig>
  readonly blockCount?: number
  readonly blockTokens?: number
  readonly tpSize?: number
  /** Of the model: its ranks share them out. Default one for each rank. */
  readonly kvHeadCount?: number
  /** `LBHNC` (default) or `LBNHC`. */
  readonly layout?: string
  /** What this engine claims of its cache instead of the truth. */
  readonly caches?: Partial<KvCacheLayout>
  /** The engine's own view of time. Default the world's. */
  readonly clock?: Clock
  /** Default the world's. */
  readonly factory?: ConnectorFactory
  /** What its worker halves may open. */
  readonly history?: (world: World) => HistoryProvider
  readonly wrapAgent?: (agent: TransferAgent) => TransferAgent
  readonly wrapSideChannel?: (sideChannel: SideChannel) => SideChannel
}

export interface EngineRank {
  readonly agent: TransferAgent
  readonly sideChannel: SideChannel
  readonly worker: ConnectorWorker
  /** As the engine describes them to its connector. */
  readonly caches: KvCacheLayout
  /** What they hold. */
  readonly content: RankContent
}

export class EngineHost {
  readonly world: World
  readonly engineId: string
  readonly incarnation: string
  readonly blockCount: number
  readonly blockTokens: number
  readonly clock: Clock
  readonly factory: ConnectorFactory
  readonly scheduler: ConnectorScheduler
  readonly ranks: readonly EngineRank[]
  readonly metrics = new Map<string, number>()
  readonly logs: string[] = []
  readonly stats: StatsSnapshot[] = []
  readonly outputs: WorkerOutput[] = []
  /** What the connector wakes. */
  onStepWanted: () => void = () => {}
  readonly #processes: ProcessTable
  readonly #aggregator: RankAggregator
  #stepIndex = 0

  constructor(world: World, init: EngineOptions) {
    this.world = world
    this.engineId = init.engineId
    this.incarnation = init.incarnation ?? `${init.engineId}-1`
    this.blockCount = init.blockCount ?? 64
    this.blockTokens = init.blockTokens ?? defaultBlockTokens
    this.clock = init.clock ?? world.clock
    this.factory = init.factory ?? world.factory
    const tpSize = init.tpSize ?? 1
    this.#processes = world.processes.start()
    const common = this.#components(init)
    const channel = this.world.channels.open(
      { engineId: common.engineId, incarnation: common.incarnation },
      init.port === undefined ? {} : { port: init.port },
    )
    const sideChannel = init.wrapSideChannel?.(channel) ?? channel
    this.scheduler = this.factory.createScheduler({ ...common, blockTokens: this.blockTokens })
    this.ranks = Array.from({ length: tpSize }, (_, tpRank) =>
      this.#createRank(init, { ...common, sideChannel }, tpRank, tpSize),
    )
    this.#aggregator = new RankAggregator(tpSize)
  }

  /** Every rank's caches, then the scheduler half hears of them. */
  async register(): Promise<void> {
    const metadata = await Promise.all(
      this.ranks.map(({ worker, caches }) => worker.registerKvCaches(caches)),
    )
    this.scheduler.setHandshakeMetadata(
      new Map(metadata.map((bytes, tpRank) => [rankKey(0, tpRank), bytes])),
    )
  }

  buildMeta(scheduled: readonly ScheduledRequest[], preempted: readonly string[]): Uint8Array {
    return this.scheduler.buildConnectorMeta({
      stepIndex: this.#stepIndex++,
      scheduled,
      preemptedRequestIds: preempted.map(asRequestId),
    })
  }

  async handlePreemptions(meta: Uint8Array): Promise<void> {
    await Promise.all(this.ranks.map(({ worker }) => worker.handlePreemptions(meta)))
  }

  bind(meta: Uint8Array): void {
    for (const { worker } of this.ranks) worker.bindConnectorMetadata(meta)
  }

  /** One fence per rank, or null on a step without a forward. */
  save(fences: readonly ReadyFence[] | null): void {
    for (const [rank, { worker }] of this.ranks.entries()) {
      worker.waitForSave(fences?.[rank] ?? null)
    }
  }

  /** What the workers found, also told to the scheduler half. */
  collect(finished: ReadonlySet<string> = new Set()): WorkerOutput {
    const ids = new Set([...finished].map(asRequestId))
    const output = this.#aggregator.add(
      this.ranks.map(({ worker }) => worker.getTransferResults(ids)),
    )
    this.outputs.push(output)
    for (const { worker } of this.ranks) {
      const stats = worker.getStats()
      if (stats !== null) this.stats.push(stats)
    }
    return output
  }

  /** SIGKILL: its agents and its connections. */
  kill(): void {
    for (const { agent } of this.ranks) this.world.fabric.faults.kill(agent.name)
    this.world.channels.faults.kill(asEngineId(this.engineId))
    this.world.processes.end(this.#processes.self)
  }

  async shutdown(): Promise<void> {
    await Promise.all([
      this.scheduler.shutdown(),
      ...this.ranks.map(({ worker }) => worker.shutdown()),
    ])
  }

  #components(init: EngineOptions): CommonComponents {
    const { factory, engineId } = this
    return {
      engineId: asEngineId(engineId),
      incarnation: asIncarnation(this.incarnation),
      config: {
        ...configOf(factory.name, engineId, init.options ?? {}),
        path: this.world.path,
        ...init.config,
      },
      clock: this.clock,
      random: this.world.random.fork(this.incarnation),
      logger: this.#createLogger(),
      metrics: {
        add: (name, amount = 1, labels) => this.#addMetric(name, labels, amount),
        set: (name, value) => void this.metrics.set(name, value),
        observe: (name) => this.#addMetric(name, undefined, 1),
      },
      requestStep: () => this.onStepWanted(),
    }
  }

  #createRank(
    init: EngineOptions,
    common: CommonComponents & { readonly sideChannel: SideChannel },
    tpRank: number,
    tpSize: number,
  ): EngineRank {
    const { fabric } = this.world
    const suffix = tpSize === 1 ? '' : `/${tpRank}`
    const agent = fabric.createAgent(`${this.engineId}/${this.incarnation}${suffix}`, {
      hasSlabs: this.world.path === 'slabs' || this.world.path === 'auto',
      hasIpc: this.world.path === 'ipc',
      process: this.#processes.self,
    })
    const { blockCount, blockTokens } = this
    const kvHeadCount = (init.kvHeadCount ?? tpSize) / tpSize
    const layout = init.layout ?? 'LBHNC'
    const own = createCaches(fabric, { blockCount, blockTokens, kvHeadCount, layout })
    const content = { caches: own, firstHead: tpRank * kvHeadCount }
    const ports = {
      agent: init.wrapAgent?.(agent) ?? agent,
      sideChannel: common.sideChannel,
    }
    const worker = this.factory.createWorker(
      {
        ...{ ...common, ...ports, processes: this.#processes },
        ...{ kernels: fabric.kernels, allocator: fabric.allocator },
        ...(init.history === undefined ? {} : { history: init.history(this.world) }),
      },
      { tpRank, tpSize, ppRank: 0, ppSize: 1 },
    )
    return { ...ports, worker, caches: { ...own, ...init.caches }, content }
  }

  #createLogger(): Logger {
    const log = (message: string, fields?: LogFields): void => {
      this.logs.push(`${message} ${JSON.stringify(fields ?? {})}`)
    }
    const logger: Logger = {
      ...silentLogger,
      debug: log,
      info: log,
      warn: log,
      error: log,
      child: () => logger,
    }
    return logger
  }

  #addMetric(name: string, labels: MetricLabels | undefined, amount: number): void {
    const key = [name, ...Object.values(labels ?? {})].join(' ')
    this.metrics.set(key, (this.metrics.get(key) ?? 0) + amount)
  }
}
