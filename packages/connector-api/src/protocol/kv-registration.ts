/**
 * Makes an engine's KV cache known to the agent: one registered region per allocation (layers usually
 * share one), one block table over all layers. Undone in the opposite order.
 */
import {
  limits,
  type BlockTableHandle,
  type KvCacheLayout,
  type KvMemory,
  type KvRegionLayout,
  type RegionHandle,
  type TransferAgent,
} from '../index.ts'
import { asConnectorError, limitExceeded } from './failures.ts'

export interface KvRegistration {
  readonly regions: readonly RegionHandle[]
  readonly table: BlockTableHandle
}

interface Range {
  readonly start: number
  readonly end: number
}

/**
 * @throws TypeError when there is no region; RangeError for a region with other blocks than the cache, and
 *   bounds; ConnectorError ERR_NIXL, ERR_KV_LIMIT, ERR_KV_CLOSED. Nothing stays registered then.
 */
export async function registerCaches(
  agent: TransferAgent,
  caches: KvCacheLayout,
): Promise<KvRegistration> {
  const { regions } = caches
  if (regions.length === 0) throw new TypeError('a KV cache without regions')
  if (regions.length > limits.regionCountMax) {
    throw limitExceeded('regionCountMax', regions.length, limits.regionCountMax)
  }
  // Ids are checked against the cache's number: a region with fewer would be read beyond its end.
  const odd = regions.find(({ blockCount }) => blockCount !== caches.blockCount)
  if (odd !== undefined) {
    const { name, blockCount } = odd
    throw new RangeError(
      `region ${name}: blockCount is ${blockCount}, the cache's is ${caches.blockCount}; ` +
        'give every region the number of blocks that all of them have',
    )
  }
  const ranges = rangesByMemory(regions)
  const handles = new Map<KvMemory, RegionHandle>()
  try {
    for (const [memory, { start, end }] of ranges) {
      const options = { memory, offsetBytes: start, lengthBytes: end - start }
      handles.set(memory, await agent.registerRegion(options))
    }
    const table = agent.declareBlockTable(
      regions.map(({ memory, offsetBytes, blockSizeBytes, blockStrideBytes, blockCount }) => ({
        region: handles.get(memory)!,
        offsetBytes: offsetBytes - ranges.get(memory)!.start,
        blockSizeBytes,
        blockStrideBytes,
        blockCount,
      })),
    )
    return { regions: [...handles.values()], table }
  } catch (cause) {
    for (const region of handles.values()) await agent.deregisterRegion(region)
    throw cause
  }
}

/** What is still in use stays registered, as it must; the reasons come back for the log. */
export async function deregisterCaches(
  agent: TransferAgent,
  { regions, table }: KvRegistration,
): Promise<string[]> {
  const failures: string[] = []
  const attempt = async (undo: () => Promise<void> | void): Promise<void> => {
    try {
      await undo()
    } catch (cause) {
      failures.push(asConnectorError(cause, { operation: 'deregister', peer: 'agent' }).message)
    }
  }
  await attempt(() => agent.releaseBlockTable(table))
  for (const region of regions) await attempt(() => agent.deregisterRegion(region))
  return failures
}

function rangesByMemory(regions: readonly KvRegionLayout[]): Map<KvMemory, Range> {
  const ranges = new Map<KvMemory, Range>()
  for (const { memory, offsetBytes, blockSizeBytes, blockStrideBytes, blockCount } of regions) {
    const end = offsetBytes + (blockCount - 1) * blockStrideBytes + blockSizeBytes
    const known = ranges.get(memory)
    ranges.set(memory, {
      start: Math.min(offsetBytes, known?.start ?? offsetBytes),
      end: Math.max(end, known?.end ?? end),
    })
  }
  return ranges
}
