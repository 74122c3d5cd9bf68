/**
 * Arithmetic on cache layouts that connectors, engines and kernels share: bytes of a block, packed blocks
 * seen as caches, the order of tokens and heads within a block, and whether tokens of one layout can
 * become tokens of another. Pure; touches no memory.
 */
import type { KvCacheLayout, KvSlab } from './kv-memory.ts'

/** Bytes of one block over all regions: what it takes in a slab. */
export function blockBytes(caches: KvCacheLayout): number {
  return caches.regions.reduce((sum, region) => sum + region.blockSizeBytes, 0)
}

/** `blockCount` packed blocks of a slab as caches: block `i` of the slab has the id `i`. */
export function slabLayout(caches: KvCacheLayout, slab: KvSlab, blockCount: number): KvCacheLayout {
  const blockStrideBytes = blockBytes(caches)
  let { offsetBytes } = slab
  const regions = caches.regions.map(({ name, blockSizeBytes }) => {
    const region = {
      ...{ name, memory: slab.memory, offsetBytes },
      ...{ blockSizeBytes, blockStrideBytes, blockCount },
    }
    offsetBytes += blockSizeBytes
    return region
  })
  return { ...caches, blockCount, regions }
}

/**
 * Whether each head's tokens lie together in a block (`LBHNC`, `HND`), not each token's heads (`LBNHC`,
 * `NHD`).
 * @throws RangeError for a name without exactly one N and one H.
 */
export function isHeadMajor(layout: string): boolean {
  const order = [...layout].filter((letter) => letter === 'N' || letter === 'H').join('')
  if (order === 'NH') return false
  if (order === 'HN') return true
  throw new RangeError(`layout ${layout} names no order of tokens (N) and heads (H)`)
}

/** Whether each block holds the bytes of several layers (`BLHNC`), not of one (`LBNHC`, or a region for each: `NHD`). */
export const hasLayersInBlock = (layout: string): boolean =>
  layout.includes('B') && layout.indexOf('L') > layout.indexOf('B')

/** Whether tokens and heads come in the same order: also where a name gives none, if the names are equal. */
export const hasSameOrder = (a: string, b: string): boolean =>
  a === b || isHeadMajor(a) === isHeadMajor(b)

/**
 * Whether blocks of one layout become the other's when tokens and heads change places (`LBNHC` and `LBHNC`,
 * `NHD` and `HND`): nothing else may lie elsewhere, and nothing between the two.
 */
export function canReorder(a: string, b: string): boolean {
  const tokensFirst = (layout: string): string => layout.replace('HN', 'NH')
  return a === b || (tokensFirst(a) === tokensFirst(b) && /^[^NH]*NH[^NH]*$/.test(tokensFirst(a)))
}

/**
 * Checks that tokens of `from` can become tokens of `to`: the same regions in the same order, heads, and
 * bytes of a token and of a head.
 * @throws RangeError that names the first difference.
 */
export function assertSameTokens(from: KvCacheLayout, to: KvCacheLayout): void {
  const same = (what: string, a: number | string, b: number | string) => {
    if (a !== b) throw new RangeError(`${what} differs: ${a} and ${b}`)
  }
  same('the number of regions', from.regions.length, to.regions.length)
  same('the number of heads', from.kvHeadCount, to.kvHeadCount)
  const hasHeadOrder = isHeadMajor(from.layout) || isHeadMajor(to.layout)
  from.regions.forEach((region, index) => {
    const other = to.regions[index]!
    same(`the name of region ${index}`, region.name, other.name)
    const size = region.blockSizeBytes / from.blockTokens
    same(`bytes of a token in ${region.name}`, size, other.blockSizeBytes / to.blockTokens)
    const unit = hasHeadOrder ? size / from.kvHeadCount : size
    if (!Number.isSafeInteger(unit) || unit <= 0) {
      throw new RangeError(`region ${region.name}: ${unit} bytes a head and token`)
    }
  })
}
