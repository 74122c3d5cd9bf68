/**
 * Ports of a real engine: native memory and kernels, and, with a connector, a NIXL agent and the TCP side
 * channel. The native package is imported only here, so that nothing else needs it; what is missing is
 * its typed error, never another agent.
 */
import { asEngineId, asIncarnation } from '@kvferry/connector-api'
import type { KvMemoryAllocator, Logger, SideChannelConfig } from '@kvferry/connector-api'
import type * as NativeNixl from '@kvferry/native-nixl'
import {
  createMetrics,
  createProcessTable,
  createSideChannel,
  createSystemClock,
  createSystemRandom,
  isLoopbackHost,
} from '@kvferry/runtime'
import type { CoreConfig } from './core-messages.ts'
import type { CorePorts } from './core-ports.ts'
import { agentNames } from './agent-names.ts'
import { ipcOf, slabsOf } from './engine-paths.ts'
import { pauseThread } from './step-end.ts'
import { loadFactory } from './load-factory.ts'

type Native = typeof NativeNixl
type NixlAgent = Awaited<ReturnType<Native['createNixlAgent']>>

/**
 * UCX stays on loopback, the native package's default, while the side channel does. Beyond it UCX chooses
 * among all devices, unless UCX_NET_DEVICES is set already.
 */
const networkOf = ({ host }: SideChannelConfig): Readonly<Record<string, string>> =>
  isLoopbackHost(host) ? {} : { UCX_NET_DEVICES: 'all' }

/** Host memory beside a GPU's is page-locked: else its kernels don't reach it. */
function allocatorsOn(
  native: Native,
  device: number | null,
): Pick<CorePorts, 'allocator' | 'hostAllocator' | 'addressOf'> {
  const host = native.createHostAllocator({})
  if (device === null) {
    return { allocator: host, hostAllocator: host, addressOf: native.addressForDebug }
  }
  const locked: KvMemoryAllocator = {
    allocate(options) {
      const memory = host.allocate(options)
      try {
        native.lockHostMemory(memory, { device })
      } catch (error) {
        memory.free()
        throw error
      }
      return memory
    },
  }
  // Addresses are for those who look from another process, which can't reach into a GPU.
  return {
    ...{ allocator: native.createDeviceAllocator({ device }), hostAllocator: locked },
    addressOf: () => null,
  }
}

/**
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE (addon not built, library not found), ERR_NIXL, ERR_CUDA_UNAVAILABLE,
 *   ERR_KV_CONNECTOR_NOT_INSTALLED, ERR_KV_CONFIG; what the side channel refuses.
 */
export async function createNixlPorts(config: CoreConfig, logger: Logger): Promise<CorePorts> {
  const native = await import('@kvferry/native-nixl')
  const clock = createSystemClock()
  const random = createSystemRandom()
  const metrics = createMetrics()
  const { device } = config.settings
  const shared = {
    agentKind: 'nixl' as const,
    clock,
    pause: pauseThread,
    random,
    logger,
    metrics,
    ...allocatorsOn(native, device),
    kernels: native.createKernels({}),
  }
  const { kvferry } = config
  if (kvferry === null) return { ...shared, config, transfer: null, transports: () => [] }
  const loaded = await loadFactory(kvferry)
  const agents: NixlAgent[] = []
  try {
    for (const name of agentNames(config)) {
      const { libraryPath, backends } = kvferry.nixl
      const env = networkOf(kvferry.sideChannel)
      const slabs = slabsOf(config)
      const ipc = ipcOf(config)
      const options = { name, libraryPath, backends: [...backends], env, slabs, ipc, device }
      agents.push(await native.createNixlAgent(options))
    }
    const identity = {
      engineId: asEngineId(config.engineId),
      incarnation: asIncarnation(config.incarnation),
    }
    const { peers, sideChannel } = kvferry
    const channel = await createSideChannel({
      config: sideChannel,
      identity,
      peers,
      clock,
      random,
      logger,
      metrics,
    })
    return {
      ...shared,
      config: { ...config, kvferry: loaded.config },
      transfer: {
        ...{ factory: loaded.factory, agents, sideChannel: channel },
        processes: createProcessTable(),
      },
      transports: () => [...new Set(agents.flatMap((agent) => native.transportsInUse(agent)))],
    }
  } catch (error) {
    // Nothing is open in them yet; what went wrong is the news, not how they close.
    await Promise.allSettled(agents.map((agent) => agent.close()))
    throw error
  }
}
