/** The toy model's KV cache, small enough to be checked byte by byte, and the config around it. */
import { asEngineId } from '../../ids.ts'
import type { KvferryConfig } from '../../config.ts'
import type { KvCacheLayout } from '../../kv-memory.ts'
import type { MemoryFabric } from '../memory-fabric/fabric.ts'

export const defaultBlockTokens = 4
/** Of one head, in one layer. */
const tokenBytes = 16

export interface ToyLayout {
  readonly blockCount: number
  readonly blockTokens: number
  /** Heads that this rank holds. */
  readonly kvHeadCount: number
  /** `LBHNC` or `LBNHC`. */
  readonly layout: string
}

/** The cache of one rank: two layers, in one allocation. */
export function createCaches(fabric: MemoryFabric, toy: ToyLayout): KvCacheLayout {
  const { blockCount, blockTokens, kvHeadCount, layout } = toy
  const blockSizeBytes = blockTokens * kvHeadCount * tokenBytes
  const regionSizeBytes = blockSizeBytes * blockCount
  const memory = fabric.allocator.allocate({ sizeBytes: 2 * regionSizeBytes })
  const regions = ['layer-0', 'layer-1'].map((name, index) => ({
    name,
    memory,
    offsetBytes: index * regionSizeBytes,
    blockSizeBytes,
    blockStrideBytes: blockSizeBytes,
    blockCount,
  }))
  return {
    model: 'toy',
    dtype: 'bfloat16',
    layout,
    layerCount: 2,
    kvHeadCount,
    headSize: 4,
    blockTokens,
    blockCount,
    regions,
  }
}

export function configOf(
  connector: string,
  engineId: string,
  options: Readonly<Record<string, unknown>>,
): KvferryConfig {
  return {
    connector,
    role: 'both',
    engineId: asEngineId(engineId),
    loadFailurePolicy: 'recompute',
    bufferDevice: 'device',
    sideChannel: { host: '127.0.0.1', port: 0, insecure: false, tls: null },
    peers: null,
    path: 'auto',
    nixl: { backends: ['UCX'], libraryPath: null },
    options,
  }
}
