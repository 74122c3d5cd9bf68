/**
 * KV kernels: seeded content and digests of token slots, copies between caches, slabs and layouts, on a few
 * threads of their own, never on the JS thread. Where the memory of a call lies on a GPU, that GPU does the work, beside
 * host memory that is page-locked (`lockHostMemory`); the answers are the same, bit for bit. Knows layouts, no
 * engines. An idle one costs nothing and is collected when dropped. Two mappings of one memory are two
 * memories: that they share bytes isn't seen.
 */
import { availableParallelism } from 'node:os'
import {
  assertSameTokens,
  isHeadMajor,
  type KvCacheLayout,
  type KvKernels,
  type KvSlab,
  type TokenRun,
  type TokenSlots,
} from '@kvferry/connector-api'
import { kernelKinds, type NativeKernels, type NativeRegions } from './binding.ts'
import { nativeMemoryOf } from './native-memory.ts'
import { loadBinding } from './load-binding.ts'
import { awaitNative } from './nixl-error.ts'

const noSlots: TokenSlots = { blockIds: new Uint32Array(0), offsets: new Uint32Array(0) }
const noSeeds = new BigUint64Array(0)

/** Half the cores: kernels stand beside an engine, they don't replace it. */
function defaultThreadCount(): number {
  return Math.max(1, Math.floor(availableParallelism() / 2))
}

/**
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE when the addon is not built. The kernels reject with
 *   RangeError (ids, lengths, a slot named twice by `fill`, block sizes that are no multiple of 8 bytes
 *   per token, freed memory), TypeError (foreign memory), ConnectorError ERR_KV_LIMIT.
 */
export function createKernels(options: { readonly threads?: number } = {}): KvKernels {
  const threads = options.threads ?? defaultThreadCount()
  if (!Number.isSafeInteger(threads) || threads < 1) {
    throw new RangeError(`threads must be a positive integer, not ${threads}`)
  }
  const binding = loadBinding()
  const native: NativeKernels = new binding.Kernels(threads)

  const submit = (
    kind: keyof typeof kernelKinds,
    caches: KvCacheLayout,
    slots: TokenSlots,
    seeds: BigUint64Array,
  ) => {
    const regions = flatRegions(caches, kind !== 'expect')
    return awaitNative({ operation: kind }, () =>
      native.submit(
        kernelKinds[kind],
        caches.blockTokens,
        regions,
        slots.blockIds,
        slots.offsets,
        seeds,
      ),
    )
  }
  const copyBlocks = (
    kind: 'gather' | 'scatter',
    caches: KvCacheLayout,
    blockIds: Uint32Array,
    slab: KvSlab,
  ) => {
    const regions = flatRegions(caches, true)
    const memory = nativeMemoryOf(slab.memory)
    return awaitNative({ operation: kind }, () =>
      native.copyBlocks(kind === 'gather', regions, blockIds, memory, slab.offsetBytes),
    )
  }
  return {
    fill: async (caches, slots, seeds) => submit('fill', caches, slots, seeds),
    digest: async (caches, slots) => submit('digest', caches, slots, noSeeds),
    expect: async (caches, seeds) => submit('expect', caches, noSlots, seeds),
    gather: async (caches, blockIds, into) => {
      await copyBlocks('gather', caches, blockIds, into)
    },
    scatter: async (from, caches, blockIds) => {
      await copyBlocks('scatter', caches, blockIds, from)
    },
    relayout: async (from, to, tokenCount) => {
      assertSameTokens(from.caches, to.caches)
      const { kvHeadCount } = from.caches
      await awaitNative({ operation: 'relayout' }, () =>
        native.relayout(...flatRun(from), ...flatRun(to), kvHeadCount, tokenCount),
      )
    },
  }
}

function flatRun({ caches, blockIds, firstToken }: TokenRun) {
  return [
    caches.blockTokens,
    isHeadMajor(caches.layout),
    flatRegions(caches, true),
    blockIds,
    firstToken ?? 0,
  ] as const
}

function flatRegions(caches: KvCacheLayout, isTouched: boolean): NativeRegions {
  return caches.regions.flatMap((region) => [
    isTouched ? nativeMemoryOf(region.memory) : null,
    region.offsetBytes,
    region.blockSizeBytes,
    region.blockStrideBytes,
    region.blockCount,
  ])
}
