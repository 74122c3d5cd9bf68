/**
 * Ports of an inline engine: all roles in one process over the in-memory fabric, for tests and for the
 * demo on machines without NIXL. Chosen by the caller alone; nothing falls back to it.
 */
import { asEngineId, asIncarnation, ConnectorError } from '@kvferry/connector-api'
import type {
  Clock,
  KvKernels,
  KvMemoryAllocator,
  Logger,
  PeerIdentity,
  SideChannel,
  TransferAgent,
} from '@kvferry/connector-api'
import {
  createMetrics,
  createSideChannel,
  createSystemClock,
  createSystemRandom,
} from '@kvferry/runtime'
import type { CoreConfig } from './core-messages.ts'
import type { CorePorts } from './core-ports.ts'
import { agentNames } from './agent-names.ts'
import { slabsOf } from './engine-paths.ts'
import { loadFactory } from './load-factory.ts'

/** `createMemoryFabric` of `@kvferry/connector-api/testing` makes one; all engines of a process share it. */
export interface TransferFabric {
  readonly allocator: KvMemoryAllocator
  readonly kernels: KvKernels
  createAgent(name: string, options?: { readonly hasSlabs?: boolean }): TransferAgent
}

export interface MemoryPortOptions {
  readonly fabric: TransferFabric
  readonly logger: Logger
  readonly clock?: Clock
  /** Default: TCP on the configured address. */
  readonly createSideChannel?: (identity: PeerIdentity) => Promise<SideChannel>
}

/** @throws ConnectorError ERR_KV_CONNECTOR_NOT_INSTALLED, ERR_KV_CONFIG, ERR_KV_UNSUPPORTED (a GPU); what the side channel refuses. */
export async function createMemoryPorts(
  config: CoreConfig,
  options: MemoryPortOptions,
): Promise<CorePorts> {
  const { fabric, logger } = options
  const { device } = config.settings
  if (device !== null) {
    const capability = `device cuda:${device}`
    const message = `${capability}: the in-memory fabric moves host memory only; use core worker, over NIXL`
    throw new ConnectorError('ERR_KV_UNSUPPORTED', message, { capability })
  }
  const clock = options.clock ?? createSystemClock()
  const random = createSystemRandom()
  const metrics = createMetrics()
  const shared = {
    agentKind: 'memory' as const,
    clock,
    pause: null,
    random,
    logger,
    metrics,
    allocator: fabric.allocator,
    hostAllocator: fabric.allocator,
    kernels: fabric.kernels,
    transports: () => (config.kvferry === null ? [] : ['memory']),
    addressOf: () => null,
  }
  const { kvferry } = config
  if (kvferry === null) return { ...shared, config, transfer: null }
  const loaded = await loadFactory(kvferry)
  const identity = {
    engineId: asEngineId(config.engineId),
    incarnation: asIncarnation(config.incarnation),
  }
  const { peers, sideChannel } = kvferry
  const channel = await (options.createSideChannel?.(identity) ??
    createSideChannel({ config: sideChannel, identity, peers, clock, random, logger, metrics }))
  const agents = agentNames(config).map((name) =>
    fabric.createAgent(name, { hasSlabs: slabsOf(config) !== null }),
  )
  return {
    ...shared,
    config: { ...config, kvferry: loaded.config },
    // Engines of one process end with it: there is nobody left to be told.
    transfer: { factory: loaded.factory, agents, sideChannel: channel, processes: null },
  }
}
