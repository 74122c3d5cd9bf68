/**
 * The content kernels over all ranks of an engine: each rank holds its share of the heads, with content of
 * its own, and a token depends on the bytes of all. One rank is the kernels themselves. Used by forward.ts.
 */
import type { KvCacheLayout, KvKernels, TokenSlots } from '@kvferry/connector-api'

export type ContentKernels = Pick<KvKernels, 'fill' | 'digest' | 'expect'>

/** `ranks`: their caches, in order; block ids mean the same on all. */
export function shardKernels(kernels: KvKernels, ranks: readonly KvCacheLayout[]): ContentKernels {
  if (ranks.length === 1) return kernels
  const sum = async (parts: readonly Promise<BigUint64Array>[]): Promise<BigUint64Array> => {
    const [first, ...others] = await Promise.all(parts)
    const total = first as BigUint64Array
    // Stored modulo 2^64, as digests are.
    for (const part of others) part.forEach((digest, slot) => (total[slot]! += digest))
    return total
  }
  return {
    fill: (_, slots: TokenSlots, seeds) =>
      sum(ranks.map((caches, rank) => kernels.fill(caches, slots, seedsOf(seeds, rank)))),
    digest: (_, slots) => sum(ranks.map((caches) => kernels.digest(caches, slots))),
    expect: (_, seeds) =>
      sum(ranks.map((caches, rank) => kernels.expect(caches, seedsOf(seeds, rank)))),
  }
}

/** The same share on two ranks would hide a swap of ranks. */
function seedsOf(seeds: BigUint64Array, rank: number): BigUint64Array {
  if (rank === 0) return seeds
  const salt = BigInt.asUintN(64, BigInt(rank) * 0x9e3779b97f4a7c15n)
  return seeds.map((seed) => seed ^ salt)
}
