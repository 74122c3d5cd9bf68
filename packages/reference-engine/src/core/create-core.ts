/**
 * Assembles one engine core from its ports: KV and connector, scheduler, loop. Runs on the core's thread;
 * used by the worker entry and by inline engines alike, so there is one assembly.
 */
import { asEngineId, asRequestId } from '@kvferry/connector-api'
import type { Clock, EngineId, LoadSample } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import { resolveModel } from '../model-presets.ts'
import { timePresets } from '../time-model.ts'
import { blockKeyer } from './block-hash.ts'
import { BlockPool } from './block-pool.ts'
import type { CoreConfig, CoreListener } from './core-messages.ts'
import type { CorePorts } from './core-ports.ts'
import { EngineCore, EventBuffer } from './engine-core.ts'
import { Forward } from './forward.ts'
import { HookStopwatch } from './hook-stopwatch.ts'
import type { EngineHistory } from './engine-history.ts'
import type { KvCaches } from './kv-caches.ts'
import { Lifecycle, type LifecycleListener } from './lifecycle.ts'
import { openKv, type OpenKv } from './open-kv.ts'
import { RequestBlocks } from './request-blocks.ts'
import { RequestTable } from './request-table.ts'
import { Scheduler } from './scheduler.ts'
import { shardKernels } from './sharded-kernels.ts'
import { StepAccounts } from './step-accounts.ts'
import { StepRunner } from './step-runner.ts'
import { describeTimings } from './timings.ts'

/** The parts that reports are made from (`core-views.ts`), and the handle of the loop. */
export interface AssembledCore {
  readonly config: CoreConfig
  readonly ports: CorePorts
  readonly caches: KvCaches
  readonly history: EngineHistory
  readonly pool: BlockPool
  readonly table: RequestTable
  readonly lifecycle: Lifecycle
  readonly forward: Forward
  readonly accounts: StepAccounts
  readonly engine: EngineCore
  /** Latest totals of the connector. */
  connectorCounters(): Readonly<Record<string, number>>
  /** Ends requests and loop, then connector, side channel, agent and memory, all by `deadlineMs`. Idempotent. */
  close(options: { readonly deadlineMs: number }): Promise<void>
}

/**
 * @throws ConnectorError whatever the allocator, the connector's registration or the agent refuse; the
 *   ports are closed then.
 */
export async function createCore(ports: CorePorts, listener: CoreListener): Promise<AssembledCore> {
  const { clock, pause, config, kernels, logger } = ports
  const { settings } = config
  const shape = resolveModel(settings.model, settings.kvScale)
  const watch = new HookStopwatch(clock)
  let wake: () => void = () => {}
  const kv = await openKv({ ports, shape, watch, requestStep: () => wake() })
  const { caches, history, connector } = kv

  const engineId = asEngineId(config.engineId)
  const pool = new BlockPool(settings.blockCount, settings.blockOrder)
  const table = new RequestTable()
  const blocks = new RequestBlocks(pool, settings.blockTokens, settings.isPrefixCachingOn)
  const events = new EventBuffer()
  const accounts = new StepAccounts()
  const connectorScheduler = connector?.scheduler ?? null
  const shared = { pool, blocks, table, connector: connectorScheduler, now: () => clock.now() }
  const lifecycle = new Lifecycle({
    ...shared,
    loadFailurePolicy: config.kvferry?.loadFailurePolicy ?? 'recompute',
    listener: toEvents(engineId, events),
  })
  const sharded = shardKernels(
    kernels,
    caches.ranks.map(({ layout }) => layout),
  )
  const forward = new Forward({ kernels: sharded, caches: caches.layout, logger })
  let counters: Readonly<Record<string, number>> = {}
  const stepRunner = new StepRunner({
    clock,
    pause,
    hooks: settings.hooks,
    timePreset: timePresets[shape.preset.timePreset],
    timeScale: settings.timeScale,
    scheduler: new Scheduler({ ...shared, settings }),
    lifecycle,
    forward,
    connector,
    watch,
    accounts,
    onLoadSamples: (samples) => attachSamples(table, samples),
    onCounters: (latest) => {
      counters = latest
    },
  })
  const keyer = blockKeyer(caches.layout)
  const loop = { engineId, clock, table, lifecycle, stepRunner, events, listener, keyer }
  const engine = new EngineCore({ ...loop, connector: connectorScheduler })
  wake = () => engine.requestStep()
  engine.start()
  let closing: Promise<void> | null = null
  return {
    ...{ config, ports, caches, history, pool, table, lifecycle, forward, accounts, engine },
    connectorCounters: () => counters,
    close(options) {
      closing ??= closeWithin(options.deadlineMs, { engine, kv, clock })
      return closing
    },
  }
}

/** One deadline for all: what the requests don't use is the connector's. */
async function closeWithin(
  deadlineMs: number,
  {
    engine,
    kv,
    clock,
  }: { readonly engine: EngineCore; readonly kv: OpenKv; readonly clock: Clock },
): Promise<void> {
  const startedAt = clock.now()
  await engine.stop({ deadlineMs: deadlineMs * engineLimits.shutdownRequestShare })
  await kv.close({ deadlineMs: Math.max(0, deadlineMs - (clock.now() - startedAt)) })
}

function toEvents(engineId: EngineId, events: EventBuffer): LifecycleListener {
  return {
    onToken: ({ requestId }, token) => events.push({ kind: 'token', requestId, token }),
    onEnd(request, kvTransferParams) {
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
  }
}

/** Two ranks' shares of one load: the engine waited for the slower one. */
function mergeSamples(left: LoadSample, right: LoadSample): LoadSample {
  const slowest = left.completeAtMs >= right.completeAtMs ? left : right
  return {
    ...slowest,
    bytes: left.bytes + right.bytes,
    descriptorsBeforeMerge: left.descriptorsBeforeMerge + right.descriptorsBeforeMerge,
    descriptorsAfterMerge: left.descriptorsAfterMerge + right.descriptorsAfterMerge,
  }
}

/** Samples of requests that ended meanwhile have nobody to tell. */
function attachSamples(table: RequestTable, samples: readonly LoadSample[]): void {
  for (const sample of samples) {
    const load = table.get(asRequestId(sample.requestId))?.load
    if (load) load.sample = load.sample === null ? sample : mergeSamples(load.sample, sample)
  }
}
