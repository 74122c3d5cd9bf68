/**
 * The engine's KV memory: one allocation per rank, one region per layer in it, K and V of a token side by
 * side; ranks share the heads out. Called once at start, before the connector registers the regions.
 */
import type { KvCacheLayout, KvMemory, KvMemoryAllocator } from '@kvferry/connector-api'
import type { ModelShape } from '../model-presets.ts'
import type { EngineSettings } from './core-messages.ts'

type CacheSettings = Pick<EngineSettings, 'blockTokens' | 'blockCount' | 'tpSize' | 'kvLayout'>

export interface RankCaches {
  readonly layout: KvCacheLayout
  readonly memory: KvMemory
}

/** Those of rank 0, and of all. Block ids mean the same on each. */
export interface KvCaches extends RankCaches {
  readonly ranks: readonly RankCaches[]
}

/** @throws ConnectorError ERR_KV_LIMIT when the system has not that much memory; then none is held. */
export function allocateKvCaches(
  allocator: KvMemoryAllocator,
  shape: ModelShape,
  options: CacheSettings,
): KvCaches {
  const ranks: RankCaches[] = []
  try {
    for (let rank = 0; rank < options.tpSize; rank++) {
      ranks.push(allocateRank(allocator, shape, options))
    }
  } catch (error) {
    for (const { memory } of ranks) memory.free()
    throw error
  }
  return { ...(ranks[0] as RankCaches), ranks }
}

function allocateRank(
  allocator: KvMemoryAllocator,
  shape: ModelShape,
  options: CacheSettings,
): RankCaches {
  const { blockTokens, blockCount, tpSize, kvLayout } = options
  const { preset } = shape
  const blockSizeBytes = (shape.slotSizeBytes / tpSize) * blockTokens
  const regionSizeBytes = blockSizeBytes * blockCount
  const memory = allocator.allocate({ sizeBytes: regionSizeBytes * preset.layerCount })
  const layout: KvCacheLayout = {
    // Peers must have the same bytes, so a scaled model is another model.
    model: shape.kvScale === 1 ? shape.name : `${shape.name}/${shape.kvScale}`,
    dtype: preset.dtype,
    layout: kvLayout,
    layerCount: preset.layerCount,
    kvHeadCount: preset.kvHeadCount / tpSize,
    headSize: shape.headSize,
    blockTokens,
    blockCount,
    regions: Array.from({ length: preset.layerCount }, (_, layer) => ({
      name: `layers.${layer}`,
      memory,
      offsetBytes: layer * regionSizeBytes,
      blockSizeBytes,
      blockStrideBytes: blockSizeBytes,
      blockCount,
    })),
  }
  return { layout, memory }
}
