/**
 * Random layouts for the copying kernels, small and in one or two memories, so that many overlap or don't
 * fit; and the model that moves byte by byte. Used by kernels-copy.property.test.ts.
 */
import fc from 'fast-check'
import {
  isHeadMajor,
  type KvCacheLayout,
  type KvMemory,
  type KvRegionLayout,
} from '@kvferry/connector-api'

export const memorySizeBytes = 1_152
export const memoryCount = 2

export interface RegionCase {
  readonly memory: number
  readonly offsetBytes: number
  readonly gapBytes: number
}
export interface CachesCase {
  readonly layout: string
  readonly blockTokens: number
  readonly blockCount: number
  readonly regions: readonly RegionCase[]
}
export interface Shape {
  readonly heads: number
  readonly rowBytes: readonly number[]
}

export const content = (memory: number) =>
  Uint8Array.from(
    { length: memorySizeBytes },
    (_, at) => (at * 167 + memory * 91 + (at >> 8)) & 255,
  )

export function cachesIn(
  memories: readonly KvMemory[],
  shape: Shape,
  given: CachesCase,
): KvCacheLayout {
  const regions = given.regions.map(({ memory, offsetBytes, gapBytes }, index): KvRegionLayout => {
    const blockSizeBytes = shape.rowBytes[index]! * shape.heads * given.blockTokens
    return {
      name: `layer.${index}`,
      memory: memories[memory]!,
      offsetBytes,
      blockSizeBytes,
      blockStrideBytes: blockSizeBytes + gapBytes,
      blockCount: given.blockCount,
    }
  })
  return {
    ...{ model: 'test', dtype: 'int8', layout: given.layout, layerCount: regions.length },
    ...{ kvHeadCount: shape.heads, headSize: 1, blockTokens: given.blockTokens },
    ...{ blockCount: given.blockCount, regions },
  }
}

/** Where one byte of one head of one token lies in its region's memory. */
function addressOf(
  caches: KvCacheLayout,
  region: number,
  block: number,
  token: number,
  head: number,
) {
  const { offsetBytes, blockStrideBytes, blockSizeBytes } = caches.regions[region]!
  const { blockTokens, kvHeadCount } = caches
  const rowBytes = blockSizeBytes / blockTokens / kvHeadCount
  const row = isHeadMajor(caches.layout) ? head * blockTokens + token : token * kvHeadCount + head
  return offsetBytes + block * blockStrideBytes + row * rowBytes
}

export const layouts = fc.constantFrom('LBNHC', 'LBHNC', 'BLHNC', 'NHD', 'HND')
export const regionCase = fc.record({
  memory: fc.nat(memoryCount - 1),
  offsetBytes: fc.oneof(fc.nat(300), fc.nat(memorySizeBytes)),
  gapBytes: fc.constantFrom(0, 0, 1, 40),
})
export const cachesCase = (regionCount: number, blockTokens: readonly number[]) =>
  fc.record({
    layout: layouts,
    blockTokens: fc.constantFrom(...blockTokens),
    blockCount: fc.integer({ min: 1, max: 5 }),
    regions: fc.array(regionCase, { minLength: regionCount, maxLength: regionCount }),
  })
export const shapeCase = fc.record({
  heads: fc.integer({ min: 1, max: 3 }),
  rowBytes: fc.array(fc.constantFrom(1, 3, 8), { minLength: 1, maxLength: 2 }),
})
/** Mostly what fits. */
export const ids = (blockCount: number) => fc.array(fc.nat(blockCount), { maxLength: 5 })
export const distinctIds = (blockCount: number) =>
  fc.shuffledSubarray(Array.from({ length: blockCount }, (_, id) => id))

/** The model looks at numbers only. */
const anyMemories = Array.from({ length: memoryCount }, () => null as unknown as KvMemory)

/** Byte by byte what `relayout` must leave behind. */
export const modelRelayout = (
  given: { from: CachesCase; to: CachesCase; shape: Shape },
  from: readonly number[],
  to: readonly number[],
  tokens: { readonly count: number; readonly from: number; readonly to: number },
) => {
  const model = [content(0), content(1)]
  const source = cachesIn(anyMemories, given.shape, given.from)
  const target = cachesIn(anyMemories, given.shape, given.to)
  const place = (caches: KvCacheLayout, blocks: readonly number[], token: number) =>
    [blocks[Math.floor(token / caches.blockTokens)]!, token % caches.blockTokens] as const
  given.shape.rowBytes.forEach((rowBytes, region) => {
    for (let token = 0; token < tokens.count; token += 1) {
      for (let head = 0; head < given.shape.heads; head += 1) {
        const read = addressOf(source, region, ...place(source, from, tokens.from + token), head)
        const written = addressOf(target, region, ...place(target, to, tokens.to + token), head)
        const bytes = content(given.from.regions[region]!.memory).subarray(read, read + rowBytes)
        model[given.to.regions[region]!.memory]!.set(bytes, written)
      }
    }
  })
  return model
}
