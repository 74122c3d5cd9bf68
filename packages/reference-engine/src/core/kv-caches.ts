/**
 * The engine's KV memory: one allocation, one region per layer in it, K and V of a token side by side.
 * Called once at start, before the connector registers the regions.
 */
import type { KvCacheLayout, KvMemory, KvMemoryAllocator } from '@kvferry/connector-api'
import type { ModelShape } from '../model-presets.ts'

export interface KvCaches {
  readonly layout: KvCacheLayout
  readonly memory: KvMemory
}

/** @throws ConnectorError ERR_KV_LIMIT when the system has not that much memory. */
export function allocateKvCaches(
  allocator: KvMemoryAllocator,
  shape: ModelShape,
  options: { readonly blockTokens: number; readonly blockCount: number },
): KvCaches {
  const { blockTokens, blockCount } = options
  const { preset } = shape
  const blockSizeBytes = shape.slotSizeBytes * blockTokens
  const regionSizeBytes = blockSizeBytes * blockCount
  const memory = allocator.allocate({ sizeBytes: regionSizeBytes * preset.layerCount })
  const layout: KvCacheLayout = {
    // Peers must have the same bytes, so a scaled model is another model.
    model: shape.kvScale === 1 ? shape.name : `${shape.name}/${shape.kvScale}`,
    dtype: preset.dtype,
    layout: 'LBNHC',
    layerCount: preset.layerCount,
    kvHeadCount: preset.kvHeadCount,
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
