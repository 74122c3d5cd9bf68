/**
 * The part of a core that touches the world: KV memory, the connector's two halves, and the agent and side
 * channel that they were given. Opens them in order, hands the handshake metadata over, and closes them in
 * the reverse order, also when opening failed half-way. Called once by `create-core.ts`.
 */
import { asEngineId, asIncarnation, rankKey } from '@kvferry/connector-api'
import type { CommonComponents, ConnectorScheduler, ConnectorWorker } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import type { ModelShape } from '../model-presets.ts'
import type { CorePorts } from './core-ports.ts'
import { timeScheduler, timeWorker, type HookStopwatch } from './hook-stopwatch.ts'
import { allocateKvCaches, type KvCaches } from './kv-caches.ts'
import type { AttachedConnector } from './step-runner.ts'

export interface OpenKv {
  readonly caches: KvCaches
  readonly connector: AttachedConnector | null
  /** Never throws: what can't be closed is logged, and the rest is closed nevertheless. */
  close(): Promise<void>
}

export interface OpenKvParts {
  readonly ports: CorePorts
  readonly shape: ModelShape
  readonly watch: HookStopwatch
  requestStep(): void
}

/** @throws whatever the allocator, the connector or its registration refuse; all is closed again then. */
export async function openKv(parts: OpenKvParts): Promise<OpenKv> {
  const { ports, shape } = parts
  const closers: [what: string, close: () => Promise<void> | void][] = []
  const close = async (): Promise<void> => {
    for (const [what, closePart] of closers.splice(0).reverse()) {
      try {
        await closePart()
      } catch (error) {
        ports.logger.warn('closing failed', { what, error: String(error) })
      }
    }
  }
  const { transfer } = ports
  if (transfer !== null) {
    const deadlineMs = engineLimits.shutdownDeadlineMs
    closers.push(['agent', () => transfer.agent.close({ deadlineMs })])
    closers.push(['side channel', () => transfer.sideChannel.close()])
  }
  try {
    const caches = allocateKvCaches(ports.allocator, shape, ports.config.settings)
    // Memory goes last: until the agent is closed a transfer may touch it.
    closers.unshift(['KV memory', () => caches.memory.free()])
    const halves = createHalves(parts)
    if (halves === null || transfer === null) return { caches, connector: null, close }
    closers.push(['connector scheduler', () => halves.scheduler.shutdown()])
    closers.push(['connector worker', () => halves.worker.shutdown()])
    const metadata = await halves.worker.registerKvCaches(caches.layout)
    halves.scheduler.setHandshakeMetadata(new Map([[rankKey(0, 0), metadata]]))
    return { caches, connector: { ...halves, agent: transfer.agent }, close }
  } catch (error) {
    await close()
    throw error
  }
}

function createHalves({ ports, requestStep, watch }: OpenKvParts): {
  readonly scheduler: ConnectorScheduler
  readonly worker: ConnectorWorker
} | null {
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
  const { blockTokens } = config.settings
  const rank = { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 }
  const scheduler = factory.createScheduler({ ...common, blockTokens })
  const worker = factory.createWorker(
    { ...common, agent, sideChannel, kernels: ports.kernels },
    rank,
  )
  return { scheduler: timeScheduler(scheduler, watch), worker: timeWorker(worker, watch) }
}
