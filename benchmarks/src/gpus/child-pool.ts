/**
 * The memory of one side: a pool on a GPU or the host, seen as blocks of any size, and as slots for content and digests. Content is
 * written and digested by the kernels where it lies.
 */
import { createHash } from 'node:crypto'
import type {
  BlockTableRegion,
  KvCacheLayout,
  KvMemory,
  RegionHandle,
  TokenSlots,
} from '@kvferry/connector-api'
import {
  createDeviceAllocator,
  createHostAllocator,
  createKernels,
  lockHostMemory,
} from '@kvferry/native-nixl'
import { scatteredIds } from './blocks.ts'
import type { Blocks, Content, TableName } from './messages.ts'
import { gpus } from './settings.ts'

const { kv, slotBytes } = gpus

export class ChildPool {
  readonly memory: KvMemory
  readonly #device: number | null
  readonly #kernels = createKernels({})
  #tier: KvMemory | null = null

  /** `device`: number of a GPU; null: the host. */
  constructor(device: number | null, sizeBytes: number) {
    const allocator = device === null ? createHostAllocator() : createDeviceAllocator({ device })
    this.memory = allocator.allocate({ sizeBytes })
    this.#device = device
  }

  regions(region: RegionHandle, table: TableName): BlockTableRegion[] {
    if (table === 'kv') {
      const { blockBytes, blocksPerRegion: blockCount, regionCount } = kv
      return Array.from({ length: regionCount }, (_, index) => ({
        ...{ region, offsetBytes: index * blockBytes * blockCount, blockCount },
        ...{ blockSizeBytes: blockBytes, blockStrideBytes: blockBytes },
      }))
    }
    const blockCount = this.memory.sizeBytes / table
    return [{ region, offsetBytes: 0, blockSizeBytes: table, blockStrideBytes: table, blockCount }]
  }

  /** Writes what follows from the seed; answers a digest of it. */
  async fill({ seed, ...content }: Content): Promise<string> {
    const slots = this.#slots(content)
    const seeds = BigUint64Array.from({ length: slots.blockIds.length }, (_, at) =>
      BigInt(at * 8 + seed),
    )
    return digestOf(await this.#kernels.fill(this.#caches(slotBytes), slots, seeds))
  }

  async digest(content: Content): Promise<string> {
    return digestOf(await this.#kernels.digest(this.#caches(slotBytes), this.#slots(content)))
  }

  /** Microseconds of a copy of scattered blocks to page-locked host memory, or back. */
  async copyTier(direction: 'down' | 'up', { table, count }: Blocks): Promise<number> {
    const caches = this.#caches(Number(table))
    const packed = { memory: this.#tierOf(Number(table) * count), offsetBytes: 0 }
    const ids = scatteredIds(count, 'local')
    const startedAt = performance.now()
    if (direction === 'down') await this.#kernels.gather(caches, ids, packed)
    else await this.#kernels.scatter(packed, caches, ids)
    return (performance.now() - startedAt) * 1_000
  }

  #tierOf(sizeBytes: number): KvMemory {
    if (this.#tier !== null && this.#tier.sizeBytes >= sizeBytes) return this.#tier
    this.#tier?.free()
    this.#tier = createHostAllocator().allocate({ sizeBytes })
    if (this.#device !== null) lockHostMemory(this.#tier, { device: this.#device })
    return this.#tier
  }

  #caches(blockBytes: number): KvCacheLayout {
    const { memory } = this
    const blockCount = memory.sizeBytes / blockBytes
    const stride = { blockSizeBytes: blockBytes, blockStrideBytes: blockBytes, blockCount }
    return {
      ...{ model: 'gpus', dtype: 'int8', layout: 'LBNHC', layerCount: 1, kvHeadCount: 1 },
      ...{ headSize: blockBytes, blockTokens: 1, blockCount },
      regions: [{ name: 'layer.0', memory, offsetBytes: 0, ...stride }],
    }
  }

  /** In the order in which a transfer moves them. */
  #slots({ table, count, side }: Omit<Content, 'seed'>): TokenSlots {
    const ids = scatteredIds(count, side)
    const perBlock = table === 'kv' ? kv.regionCount : table / slotBytes
    const [blockStep, slotStep] = table === 'kv' ? [1, kv.blocksPerRegion] : [perBlock, 1]
    const blockIds = new Uint32Array(ids.length * perBlock)
    ids.forEach((id, index) => {
      for (let slot = 0; slot < perBlock; slot++) {
        blockIds[index * perBlock + slot] = id * blockStep + slot * slotStep
      }
    })
    return { blockIds, offsets: new Uint32Array(blockIds.length) }
  }
}

const digestOf = (digests: BigUint64Array): string =>
  createHash('sha256').update(new Uint8Array(digests.buffer)).digest('hex')
