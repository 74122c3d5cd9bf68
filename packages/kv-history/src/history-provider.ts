/**
 * History for a worker half: made once by whoever knows the machine's memory, opened once the engine's
 * caches are known.
 */
import {
  ConnectorError,
  historyPolicyNames,
  type HistoryOptions,
  type HistoryPolicyName,
  type HistoryProvider,
  type KvHistory,
  type KvKernels,
  type KvMemoryAllocator,
} from '@kvferry/connector-api'
import { createKernelCopies } from './copies/kernel-copies.ts'
import { historySizes } from './history-sizes.ts'
import { historyLimits } from './limits.ts'
import { TieredHistory } from './tiered-history.ts'
import { historyPolicies } from './writing/history-policy.ts'

export interface TieredHistoryComponents {
  /** Of the machine's memory: they must be able to read and write the engine's caches and both tiers. */
  readonly kernels: KvKernels
  readonly device: {
    readonly allocator: KvMemoryAllocator
    /** `host` where there is no GPU: the device tier is then a second host arena, and results say so. */
    readonly memory: 'cuda' | 'host'
  }
  /** Beside a GPU its memory must be page-locked. */
  readonly host: { readonly allocator: KvMemoryAllocator }
}

/**
 * @example
 * const history = tieredHistory({ kernels, device: { allocator, memory: 'host' }, host: { allocator } })
 * // As a component of each worker half of a producer: { …, history }
 */
export function tieredHistory(components: TieredHistoryComponents): HistoryProvider {
  return { open: (options) => openHistory(components, options) }
}

function openHistory(components: TieredHistoryComponents, options: HistoryOptions): KvHistory {
  const { caches, gpuCacheBytes, hostBlockCount, clock, random, logger, metrics } = options
  const sizes = historySizes(caches, gpuCacheBytes, hostBlockCount)
  const { device, host, kernels } = components
  const copies = createKernelCopies({
    caches,
    kernels,
    device: { allocator: device.allocator, blockCapacity: sizes.deviceBlockCapacity },
    host: { allocator: host.allocator, blockCapacity: sizes.hostBlockCapacity },
    isAllocatedAtOnce: device.memory === 'cuda',
  })
  return new TieredHistory({
    ...{ sizes, copies, clock, random, logger, metrics },
    policy: historyPolicies[policyName(options.policy ?? 'observed-reuse')],
    bounds: historyLimits,
    regionSizes: caches.regions.map(({ blockSizeBytes }) => blockSizeBytes),
    deviceMemory: device.memory,
    ...(options.directions === undefined ? {} : { directions: options.directions }),
  })
}

function policyName(value: string): HistoryPolicyName {
  const known = historyPolicyNames.find((name) => name === value)
  if (known !== undefined) return known
  const remedy = `use one of ${historyPolicyNames.join(', ')}`
  const message = `policy: ${JSON.stringify(value)} is no policy of history: ${remedy}`
  throw new ConnectorError('ERR_KV_CONFIG', message, { field: 'policy', value, remedy })
}
