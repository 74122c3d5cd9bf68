/**
 * Assembles one engine core from its configuration and ports: memory, connector halves, scheduler, loop;
 * and takes it apart again in the right order. Runs on the core's thread; used by the worker entry and by
 * inline engines alike, so there is one assembly.
 */
import { asEngineId, asIncarnation, asRequestId, rankKey } from '@kvferry/connector-api'
import type { CommonComponents } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import { resolveModel } from '../model-presets.ts'
import { timePresets } from '../time-model.ts'
import { BlockPool } from './block-pool.ts'
import type { CoreConfig, CoreListener } from './core-messages.ts'
import type { CorePorts } from './core-ports.ts'
import { EngineCore, EventBuffer } from './engine-core.ts'
import { Forward } from './forward.ts'
import { HookStopwatch, timeScheduler, timeWorker } from './hook-stopwatch.ts'
import { allocateKvCaches, type KvCaches } from './kv-caches.ts'
import { Lifecycle } from './lifecycle.ts'
import { RequestBlocks } from './request-blocks.ts'
import { RequestTable } from './request-table.ts'
import { Scheduler } from './scheduler.ts'
import { StepAccounts } from './step-accounts.ts'
import { StepRunner, type AttachedConnector } from './step-runner.ts'
import { describeTimings } from './timings.ts'

/** The parts that reports are made from (`core-views.ts`), and the handle of the loop. */
export interface AssembledCore {
  readonly config: CoreConfig
  readonly ports: CorePorts
  readonly caches: KvCaches
  readonly pool: BlockPool
  readonly table: RequestTable
  readonly lifecycle: Lifecycle
  readonly forward: Forward
  readonly accounts: StepAccounts
  readonly engine: EngineCore
  connectorCounters: Readonly<Record<string, number>>
  /** Ends requests, loop, connector, side channel, agent and memory, in this order. Idempotent. */
  close(options: { readonly deadlineMs: number }): Promise<void>
}

/**
 * @throws ConnectorError whatever the allocator, the connector's registration or the agent refuse; what
 *   was opened before is closed again.
 */
export async function createCore(ports: CorePorts, listener: CoreListener): Promise<AssembledCore> {
  const { config } = ports
  const { settings } = config
  const shape = resolveModel(settings.model, settings.kvScale)
  const caches = allocateKvCaches(ports.allocator, shape, settings)
  const watch = new HookStopwatch(ports.clock)
  const requestStep = (): void => engine?.requestStep()
  let engine: EngineCore | null = null
  const connector = createConnector(ports, watch, requestStep)
  try {
    await registerCaches(connector, caches)
  } catch (error) {
    await closeParts(connector, ports, caches)
    throw error
  }

  const pool = new BlockPool(settings.blockCount)
  const table = new RequestTable()
  const blocks = new RequestBlocks(pool, settings.blockTokens, settings.isPrefixCachingOn)
  const events = new EventBuffer()
  const engineId = asEngineId(config.engineId)
  const now = () => ports.clock.now()
  const shared = { pool, blocks, table, connector: connector?.scheduler ?? null, now }
  const scheduler = new Scheduler({ ...shared, settings })
  const lifecycle = new Lifecycle({
    ...shared,
    loadFailurePolicy: config.kvferry?.loadFailurePolicy ?? 'recompute',
    listener: {
      onToken: ({ requestId }, token) => events.push({ kind: 'token', requestId, token }),
      onEnd: (request, kvTransferParams) => {
        const { error, finishReason, requestId } = request
        events.push({
          kind: 'end',
          requestId,
          finishReason: finishReason === 'aborted' ? 'abort' : error === null ? 'length' : 'error',
          error: error === null ? null : { code: error.code, message: error.message },
          kvTransferParams,
          timings: describeTimings(engineId, request),
        })
      },
    },
  })
  const forward = new Forward({
    kernels: ports.kernels,
    caches: caches.layout,
    logger: ports.logger,
  })
  const accounts = new StepAccounts()
  const stepRunner = new StepRunner({
    clock: ports.clock,
    hooks: settings.hooks,
    timePreset: timePresets[shape.preset.timePreset],
    timeScale: settings.timeScale,
    scheduler,
    lifecycle,
    forward,
    connector,
    watch,
    accounts,
    onLoadSamples: (samples) => {
      for (const sample of samples) {
        const load = table.get(asRequestId(sample.requestId))?.load
        if (load) load.sample = sample
      }
    },
    onCounters: (counters) => {
      core.connectorCounters = counters
    },
  })
  engine = new EngineCore({
    engineId,
    clock: ports.clock,
    table,
    lifecycle,
    stepRunner,
    connector: connector?.scheduler ?? null,
    events,
    listener,
  })
  const started = engine
  let closing: Promise<void> | null = null
  const core: AssembledCore = {
    config,
    ports,
    caches,
    pool,
    table,
    lifecycle,
    forward,
    accounts,
    engine: started,
    connectorCounters: {},
    close(options) {
      closing ??= started.stop(options).then(() => closeParts(connector, ports, caches))
      return closing
    },
  }
  started.start()
  return core
}

function createConnector(
  ports: CorePorts,
  watch: HookStopwatch,
  requestStep: () => void,
): AttachedConnector | null {
  const { config, transfer } = ports
  if (transfer === null || config.kvferry === null) return null
  const { agent, factory, sideChannel } = transfer
  const common: CommonComponents = {
    engineId: asEngineId(config.engineId),
    incarnation: asIncarnation(config.incarnation),
    config: config.kvferry,
    clock: ports.clock,
    random: ports.random,
    logger: ports.logger,
    metrics: ports.metrics,
    requestStep,
  }
  const scheduler = factory.createScheduler({
    ...common,
    blockTokens: config.settings.blockTokens,
  })
  const worker = factory.createWorker(
    { ...common, agent, sideChannel, kernels: ports.kernels },
    { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 },
  )
  return {
    agent,
    scheduler: timeScheduler(scheduler, watch),
    worker: timeWorker(worker, watch),
  }
}

async function registerCaches(
  connector: AttachedConnector | null,
  caches: KvCaches,
): Promise<void> {
  if (connector === null) return
  const metadata = await connector.worker.registerKvCaches(caches.layout)
  connector.scheduler.setHandshakeMetadata(new Map([[rankKey(0, 0), metadata]]))
}

/** Each part is closed although an earlier one failed; what failed is logged, not thrown. */
async function closeParts(
  connector: AttachedConnector | null,
  ports: CorePorts,
  caches: KvCaches,
): Promise<void> {
  const attempt = async (what: string, close: () => Promise<void> | void): Promise<void> => {
    try {
      await close()
    } catch (error) {
      ports.logger.warn('closing failed', { what, error: String(error) })
    }
  }
  const { transfer } = ports
  if (connector !== null) {
    await attempt('connector worker', () => connector.worker.shutdown())
    await attempt('connector scheduler', () => connector.scheduler.shutdown())
  }
  if (transfer !== null) {
    await attempt('side channel', () => transfer.sideChannel.close())
    const deadlineMs = engineLimits.shutdownDeadlineMs
    await attempt('agent', () => transfer.agent.close({ deadlineMs }))
  }
  await attempt('KV memory', () => caches.memory.free())
}
