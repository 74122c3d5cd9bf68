/** A pool of memory, of the host or a GPU, seen as blocks of any size, and as small slots for content and digests. */
import type {
  BlockTableRegion,
  KvCacheLayout,
  KvMemory,
  RegionHandle,
  TokenSlots,
} from '@kvferry/connector-api'
import { createDeviceAllocator, type DeviceKvMemory } from '../device-memory.ts'
import { createHostAllocator } from '../host-memory.ts'

export interface RatesPool {
  readonly memory: KvMemory
  readonly sizeBytes: number
  readonly slotBytes: number
  caches(blockBytes: number): KvCacheLayout
  region(handle: RegionHandle, blockBytes: number): BlockTableRegion
  /** Overwrites all of it. */
  spoil(): void
}

const slotBytes = 4_096
const spoilBytes = 16_777_216
const spoiltByte = 0xee

/** `device`: number of a GPU; null: the host's memory. */
export function openPool(device: number | null, sizeBytes: number): RatesPool {
  const allocator = device === null ? createHostAllocator() : createDeviceAllocator({ device })
  return poolOf(allocator.allocate({ sizeBytes }))
}

function poolOf(memory: KvMemory): RatesPool {
  const { sizeBytes } = memory
  const blocks = (blockSizeBytes: number) => ({
    ...{ offsetBytes: 0, blockSizeBytes, blockStrideBytes: blockSizeBytes },
    blockCount: sizeBytes / blockSizeBytes,
  })
  return {
    ...{ memory, sizeBytes, slotBytes },
    caches: (blockBytes) => ({
      ...{ model: 'rates', dtype: 'int8', layout: 'LBNHC', layerCount: 1, kvHeadCount: 1 },
      ...{ headSize: blockBytes, blockTokens: 1, blockCount: sizeBytes / blockBytes },
      regions: [{ name: 'layer.0', memory, ...blocks(blockBytes) }],
    }),
    region: (region, blockBytes) => ({ region, ...blocks(blockBytes) }),
    spoil() {
      if (memory.bytes !== null) {
        memory.bytes.fill(spoiltByte)
        return
      }
      const bytes = new Uint8Array(Math.min(spoilBytes, sizeBytes)).fill(spoiltByte)
      for (let at = 0; at < sizeBytes; at += bytes.length) {
        const part = bytes.subarray(0, Math.min(bytes.length, sizeBytes - at))
        ;(memory as DeviceKvMemory).write(at, part)
      }
    },
  }
}

/** The slots of these blocks, in their order. */
export function slotsOf(ids: Uint32Array, blockBytes: number, pool: RatesPool): TokenSlots {
  const perBlock = blockBytes / pool.slotBytes
  const blockIds = new Uint32Array(ids.length * perBlock)
  ids.forEach((id, index) => {
    for (let slot = 0; slot < perBlock; slot += 1) {
      blockIds[index * perBlock + slot] = id * perBlock + slot
    }
  })
  return { blockIds, offsets: new Uint32Array(blockIds.length) }
}
