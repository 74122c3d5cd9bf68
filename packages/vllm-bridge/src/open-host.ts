/**
 * Assembles what a host runs on, as any engine of ours does: configuration, connector, NIXL agent, side
 * channel, and the engine's KV cache, imported by its descriptor. Closes everything in the reverse order,
 * also when opening failed half-way. Called once, by host.ts. The native package is imported only here.
 */
import {
  ConnectorError,
  asIncarnation,
  assertServes,
  loadConnector,
  rankKey,
  ipcFor,
  slabsFor,
  type CommonComponents,
  type ConnectorFactory,
  type ConnectorScheduler,
  type ConnectorWorker,
  type Clock,
  type KvCacheLayout,
  type KvMemory,
  type KvferryConfig,
  type Logger,
  type SideChannel,
  type TransferAgent,
} from '@kvferry/connector-api'
import {
  createMetrics,
  createProcessTable,
  createSideChannel,
  createSystemRandom,
  parseConfig,
} from '@kvferry/runtime'
import { tieredHistory } from '@kvferry/kv-history'
import { orderedSideChannel, orderNotifications, type AfterEngine } from './arrival-order.ts'
import { EngineClock } from './engine-clock.ts'
import { bridgeLimits } from './limits.ts'
import type { StartMessage } from './messages.ts'

export interface OpenHost {
  readonly config: KvferryConfig
  readonly incarnation: string
  /** Where its side channel listens. */
  readonly address: SideChannel['address']
  readonly scheduler: ConnectorScheduler
  /** The scheduler half's. */
  readonly engineClock: EngineClock
  readonly worker: ConnectorWorker
  readonly agent: TransferAgent
  /** Of the one rank. */
  readonly metadata: Uint8Array
  /** Never throws: what can't be closed is logged, and the rest is closed nevertheless. */
  close(): Promise<void>
}

export interface OpenHostParts {
  readonly start: StartMessage
  readonly clock: Clock
  readonly logger: Logger
  requestStep(): void
  /** What peers say waits for it (arrival-order.ts). */
  readonly afterEngine: AfterEngine
}

/**
 * @throws ConnectorError ERR_KV_CONFIG, ERR_KV_UNSUPPORTED, ERR_KV_CONNECTOR_NOT_INSTALLED,
 *   ERR_NIXL_UNAVAILABLE, ERR_NIXL, ERR_KV_LIMIT; Error of the system. All is closed again then.
 */
export async function openHost(parts: OpenHostParts): Promise<OpenHost> {
  const { clock, logger, start } = parts
  const { factory, config } = await loadFactory(parseConfig(start.config))
  const native = await import('@kvferry/native-nixl')
  const random = createSystemRandom()
  const metrics = createMetrics()
  const incarnation = asIncarnation(Buffer.from(random.bytes(8)).toString('hex'))
  const { engineId } = config
  const closers: [what: string, close: () => Promise<void> | void][] = []
  const close = (): Promise<void> => closeAll(closers, logger)
  try {
    const life = native.importHostMemory(start.life)
    closers.push(['proof of life', () => life.free()])
    const memories = start.caches.memories.map((shared) => native.importHostMemory(shared))
    for (const memory of memories) closers.push(['KV memory', () => memory.free()])
    const agent = await native.createNixlAgent({
      name: `${engineId}:${incarnation}`,
      libraryPath: config.nixl.libraryPath,
      backends: [...config.nixl.backends],
      slabs: slabsFor(config.path, start.caches.regions),
      ipc: ipcFor(config.path, 'host'),
    })
    const deadlineMs = bridgeLimits.agentCloseDeadlineMs
    closers.push(['agent', () => agent.close({ deadlineMs })])
    orderNotifications(agent, parts.afterEngine)
    const channel = await createSideChannel({
      config: config.sideChannel,
      identity: { engineId, incarnation },
      peers: config.peers,
      ...{ clock, random, logger, metrics },
    })
    closers.push(['side channel', () => channel.close()])
    const sideChannel = orderedSideChannel(channel, parts.afterEngine)
    const { requestStep } = parts
    const common: CommonComponents = {
      ...{ engineId, incarnation, config, clock, random, logger, metrics, requestStep },
    }
    const engineClock = new EngineClock(clock)
    const scheduler = factory.createScheduler({
      ...{ ...common, clock: engineClock },
      blockTokens: start.caches.blockTokens,
    })
    closers.push(['connector scheduler', () => scheduler.shutdown()])
    const kernels = native.createKernels({})
    const processes = createProcessTable()
    // vLLM's caches lie in host memory here, so the device tier is a second arena beside the host's.
    const allocator = native.createHostAllocator()
    const device = { allocator, memory: 'host' } as const
    const history = tieredHistory({ kernels, device, host: { allocator } })
    const worker = factory.createWorker(
      { ...common, agent, sideChannel, kernels, history, ...(processes && { processes }) },
      { tpRank: 0, tpSize: 1, ppRank: 0, ppSize: 1 },
    )
    closers.push(['connector worker', () => worker.shutdown()])
    const metadata = await worker.registerKvCaches(layoutOf(start, memories))
    scheduler.setHandshakeMetadata(new Map([[rankKey(0, 0), metadata]]))
    const { address } = channel
    const halves = { scheduler, engineClock, worker }
    return { config, incarnation, address, ...halves, agent, metadata, close }
  } catch (error) {
    await close()
    throw error
  }
}

const servedConnectors: readonly string[] = ['pull', 'push', 'xavier']

async function loadFactory(
  config: KvferryConfig,
): Promise<{ readonly factory: ConnectorFactory; readonly config: KvferryConfig }> {
  const factory = await loadConnector(config.connector, (name) => import(name))
  assertServes(factory, config)
  // The shim answers in the connector's place, by rules of its own for each that it knows.
  if (!servedConnectors.includes(factory.name)) {
    throw new ConnectorError(
      'ERR_KV_UNSUPPORTED',
      `the vLLM bridge serves the connectors ${servedConnectors.join(', ')}, not ${factory.name}`,
      { capability: 'transferMode' },
    )
  }
  const options = factory.parseOptions(config.options)
  if (options['bidirectional'] === true) {
    throw new ConnectorError(
      'ERR_KV_UNSUPPORTED',
      'options.bidirectional: the vLLM bridge moves KV from prefill to decode only',
      { capability: 'isBidirectional' },
    )
  }
  return { factory, config: { ...config, options } }
}

function layoutOf({ caches }: StartMessage, memories: readonly KvMemory[]): KvCacheLayout {
  const { model, dtype, layout, kvHeadCount, headSize, blockTokens, blockCount } = caches
  return {
    ...{ model, dtype, layout, kvHeadCount, headSize, blockTokens, blockCount },
    layerCount: caches.regions.length,
    regions: caches.regions.map(({ memory: index, ...region }) => {
      const memory = memories[index]
      if (memory === undefined) throw new RangeError(`region ${region.name}: no memory ${index}`)
      return { ...region, memory, blockCount }
    }),
  }
}

async function closeAll(
  closers: [what: string, close: () => Promise<void> | void][],
  logger: Logger,
): Promise<void> {
  for (const [what, closePart] of closers.splice(0).reverse()) {
    try {
      await closePart()
    } catch (error) {
      logger.warn('closing failed', { what, error: String(error) })
    }
  }
}
