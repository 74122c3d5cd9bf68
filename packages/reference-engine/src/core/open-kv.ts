/**
 * The part of a core that touches the world: KV memory, the connector's two halves, and the agent and side
 * channel that they were given. Opens them in order, hands the handshake metadata over, and closes them in
 * the reverse order, also when opening failed half-way. Called once by `create-core.ts`.
 */
import { asEngineId, asIncarnation, rankKey } from '@kvferry/connector-api'
import type { CommonComponents, ConnectorScheduler, KvCacheLayout } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import type { ModelShape } from '../model-presets.ts'
import { ClosingOrder } from './closing-order.ts'
import type { CorePorts } from './core-ports.ts'
import { EngineHistory } from './engine-history.ts'
import { timeScheduler, timeWorker, type HookStopwatch } from './hook-stopwatch.ts'
import { allocateKvCaches, type KvCaches, type RankCaches } from './kv-caches.ts'
import { RankGroup, type EngineRank } from './rank-group.ts'
import { SoleRank } from './sole-rank.ts'
import type { AttachedConnector } from './step-runner.ts'

export interface OpenKv {
  readonly caches: KvCaches
  readonly history: EngineHistory
  readonly connector: AttachedConnector | null
  /** Never throws: what can't be closed is logged, and the rest is closed nevertheless. */
  close(options: { readonly deadlineMs: number }): Promise<void>
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
  const order = new ClosingOrder(ports.clock, ports.logger)
  const close: OpenKv['close'] = (options) => order.close(options)
  const { transfer } = ports
  if (transfer !== null) {
    const { agents, sideChannel } = transfer
    order.add({
      what: 'agents',
      close: (deadlineMs) => Promise.all(agents.map((agent) => agent.close({ deadlineMs }))),
    })
    order.add({ what: 'side channel', close: () => sideChannel.close() })
  }
  try {
    const caches = allocateKvCaches(ports.allocator, shape, ports.config.settings)
    // Memory goes last: until the agent is closed a transfer may touch it.
    for (const { memory } of caches.ranks) {
      order.addLast({ what: 'KV memory', close: () => memory.free() })
    }
    const history = new EngineHistory({ ...ports, memory: caches.memory.kind })
    const halves = createHalves(parts, history)
    if (halves === null || transfer === null) return { caches, history, connector: null, close }
    const { scheduler, ranks } = halves
    order.add({ what: 'connector scheduler', close: () => scheduler.shutdown() })
    order.add({
      what: 'connector workers',
      share: engineLimits.shutdownConnectorShare,
      close: () => Promise.all(ranks.map(({ worker }) => worker.shutdown())),
    })
    const metadata = await Promise.all(
      ranks.map(({ worker }, rank) => worker.registerKvCaches(layoutOf(caches, rank))),
    )
    scheduler.setHandshakeMetadata(
      new Map(metadata.map((bytes, tpRank) => [rankKey(0, tpRank), bytes])),
    )
    const group = ranks.length === 1 ? new SoleRank(ranks[0]!) : new RankGroup(ranks)
    const worker = timeWorker(group, watch)
    return {
      caches,
      history,
      connector: { scheduler: timeScheduler(scheduler, watch), worker },
      close,
    }
  } catch (error) {
    await close({ deadlineMs: engineLimits.shutdownDeadlineMs })
    throw error
  }
}

const layoutOf = ({ ranks }: KvCaches, rank: number): KvCacheLayout =>
  (ranks[rank] as RankCaches).layout

function createHalves(
  { ports, requestStep }: OpenKvParts,
  history: EngineHistory,
): {
  readonly scheduler: ConnectorScheduler
  readonly ranks: readonly EngineRank[]
} | null {
  const { config, transfer } = ports
  if (transfer === null || config.kvferry === null) return null
  const { agents, factory, sideChannel, processes } = transfer
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
    const { hostAllocator, kernels } = ports
    const components = {
      ...{ ...common, agent, sideChannel, kernels, allocator: hostAllocator, history },
      ...(processes === null ? {} : { processes }),
    }
    const rank = { tpRank, tpSize, ppRank: 0, ppSize: 1 }
    return { agent, worker: factory.createWorker(components, rank) }
  })
  return { scheduler, ranks }
}
