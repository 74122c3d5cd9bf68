/**
 * Copies by the KV kernels of the machine (`KvKernels.relayout` between layouts that are alike), and tiers
 * that are one allocation each: slot after slot, in each the block's regions in order. A tier is allocated
 * when the first block goes there, so an engine that never keeps anything pays nothing; or at once, where
 * that takes longer than a step may wait.
 */
import {
  blockBytes,
  ConnectorError,
  slabLayout,
  type KvCacheLayout,
  type KvKernels,
  type KvMemory,
  type KvMemoryAllocator,
} from '@kvferry/connector-api'
import type { BlockCopies, BlockCopy, BlockSpace } from './block-copies.ts'

export interface TierMemory {
  readonly allocator: KvMemoryAllocator
  readonly blockCapacity: number
}

export interface KernelCopiesOptions {
  readonly caches: KvCacheLayout
  readonly kernels: KvKernels
  readonly device: TierMemory
  readonly host: TierMemory
  /** Beside a GPU: to lock the pages of the host tier takes a tenth of a second a GiB, and more. */
  readonly isAllocatedAtOnce: boolean
}

interface Tier {
  readonly memory: KvMemory
  readonly layout: KvCacheLayout
}

/** @throws ConnectorError what the allocators refuse, with `isAllocatedAtOnce`; then nothing is held. */
export function createKernelCopies(options: KernelCopiesOptions): BlockCopies {
  const { caches, kernels } = options
  const tiers = new Map<'device' | 'host', Tier>()
  let isClosed = false

  function tier(name: 'device' | 'host'): Tier {
    const known = tiers.get(name)
    if (known !== undefined) return known
    const { allocator, blockCapacity } = options[name]
    const memory = allocator.allocate({ sizeBytes: blockCapacity * blockBytes(caches) })
    const layout = slabLayout(caches, { memory, offsetBytes: 0 }, blockCapacity)
    const made = { memory, layout }
    tiers.set(name, made)
    return made
  }

  const layoutOf = (space: BlockSpace): KvCacheLayout =>
    space === 'engine' ? caches : tier(space).layout

  function free(): void {
    for (const { memory } of tiers.values()) memory.free()
    tiers.clear()
  }

  if (options.isAllocatedAtOnce) {
    try {
      for (const name of ['device', 'host'] as const) {
        if (options[name].blockCapacity > 0) tier(name)
      }
    } catch (error) {
      free()
      throw error
    }
  }

  return {
    async copy(copy: BlockCopy) {
      if (isClosed) {
        throw new ConnectorError('ERR_KV_CLOSED', 'the history is closed', { what: 'history' })
      }
      const run = (space: BlockSpace, blockIds: Uint32Array) => {
        const layout = layoutOf(space)
        const regions = layout.regions.slice(copy.firstRegion, copy.endRegion)
        return { caches: { ...layout, regions }, blockIds }
      }
      const from = run(copy.from, copy.fromBlocks)
      const to = run(copy.to, copy.toBlocks)
      await kernels.relayout(from, to, copy.fromBlocks.length * caches.blockTokens)
    },
    reservedBytes: (name) => tiers.get(name)?.memory.sizeBytes ?? 0,
    close() {
      isClosed = true
      free()
    },
  }
}
