/**
 * The part of a core that touches the world: KV memory, the connector's two halves, and the agent and side
 * channel that they were given. Opens them in order, hands the handshake metadata over, and closes them in
 * the reverse order, also when opening failed half-way. Called once by `create-core.ts`.
 */
import { asEngineId, asIncarnation, rankKey } from '@kvferry/connector-api'
import type { CommonComponents, ConnectorScheduler, KvCacheLayout } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import type { ModelShape } from '../model-presets.ts'
import type { CorePorts } from './core-ports.ts'
import { timeScheduler, timeWorker, type HookStopwatch } from './hook-stopwatch.ts'
import { allocateKvCaches, type KvCaches, type RankCaches } from './kv-caches.ts'
import { RankGroup, type EngineRank } from './rank-group.ts'
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
  const { ports, shape, watch } = parts
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
    for (const agent of transfer.agents) closers.push(['agent', () => agent.close({ deadlineMs })])
    closers.push(['side channel', () => transfer.sideChannel.close()])
  }
  try {
    const caches = allocateKvCaches(ports.allocator, shape, ports.config.settings)
    // Memory goes last: until the agent is closed a transfer may touch it.
    for (const { memory } of caches.ranks) closers.unshift(['KV memory', () => memory.free()])
    const halves = createHalves(parts)
    if (halves === null || transfer === null) return { caches, connector: null, close }
    const { scheduler, ranks } = halves
    closers.push(['connector scheduler', () => scheduler.shutdown()])
    for (const { worker } of ranks) closers.push(['connector worker', () => worker.shutdown()])
    const metadata = await Promise.all(
      ranks.map(({ worker }, rank) => worker.registerKvCaches(layoutOf(caches, rank))),
    )
    scheduler.setHandshakeMetadata(
      new Map(metadata.map((bytes, tpRank) => [rankKey(0, tpRank), bytes])),
    )
    const worker = timeWorker(new RankGroup(ranks), watch)
    return { caches, connector: { scheduler: timeScheduler(scheduler, watch), worker }, close }
  } catch (error) {
    await close()
    throw error
  }
}

const layoutOf = ({ ranks }: KvCaches, rank: number): KvCacheLayout =>
  (ranks[rank] as RankCaches).layout

function createHalves({ ports, requestStep }: OpenKvParts): {
  readonly scheduler: ConnectorScheduler
  readonly ranks: readonly EngineRank[]
} | null {
  const { config, transfer } = ports
  if (transfer === null || config.kvferry === null) return null
  const { agents, factory, sideChannel } = transfer
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
  const { blockTokens, tpSize } = config.settings
  const scheduler = factory.createScheduler({ ...common, blockTokens })
  const ranks = agents.map((agent, tpRank) => {
    const components = { ...common, agent, sideChannel, kernels: ports.kernels }
    const rank = { tpRank, tpSize, ppRank: 0, ppSize: 1 }
    return { agent, worker: factory.createWorker(components, rank) }
  })
  return { scheduler, ranks }
}
