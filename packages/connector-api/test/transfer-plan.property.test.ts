/**
 * A load of one consumer rank, planned by every producer rank that has some of its heads, over real bytes:
 * whatever layouts, block sizes, strides, TP sizes, local hits and cuts, each byte of each token of each of
 * its heads is written exactly once, with the bytes of that token and head, and nothing beside its blocks.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  isHeadMajor,
  type BlockTableHandle,
  type KvCacheLayout,
  type TransferSide,
} from '../src/index.ts'
import {
  firstSharedHead,
  matchingRanks,
  planTransfer,
  relayoutOf,
  type TokenRange,
} from '../src/protocol/index.ts'
import { createKernels } from '../src/testing/memory-fabric/kernels.ts'

const kvHeadCount = 4
const regionCount = 2
const spareBlocks = 3
const table = 0 as unknown as BlockTableHandle
const untouched = 255

interface Rank {
  readonly rank: number
  readonly tpSize: number
  readonly caches: KvCacheLayout
  readonly blockIds: Uint32Array
  /** Of the prompt, with which the first block begins. */
  readonly firstToken: number
}

interface Case {
  readonly layouts: readonly [p: string, d: string]
  readonly sizes: readonly [p: number, d: number]
  readonly blocks: readonly [p: number, d: number]
  readonly gaps: readonly [p: number, d: number]
  readonly unit: number
  readonly tokenCount: number
  /** Parts of the consumer's blocks that it has already, and of the producer's where a WRITE is cut. */
  readonly hit: number
  readonly cut: number
  readonly seed: number
}

const sizesArb = fc.constantFrom(...([1, 2, 4] as const))
const caseArb: fc.Arbitrary<Case> = fc.record({
  layouts: fc.constantFrom(
    ['LBHNC', 'LBHNC'],
    ['LBNHC', 'LBNHC'],
    ['HND', 'NHD'],
    ['LBNHC', 'LBHNC'],
  ) as fc.Arbitrary<readonly [string, string]>,
  sizes: fc.tuple(sizesArb, sizesArb),
  blocks: fc.tuple(fc.constantFrom(2, 4, 8), fc.constantFrom(2, 4, 8)),
  gaps: fc.tuple(fc.constantFrom(0, 1, 3), fc.constantFrom(0, 1, 3)),
  unit: fc.constantFrom(1, 4, 6),
  tokenCount: fc.integer({ min: 1, max: 40 }),
  hit: fc.double({ min: 0, max: 0.999, noNaN: true }),
  cut: fc.double({ min: 0, max: 1, noNaN: true }),
  seed: fc.integer({ min: 1, max: 1_000 }),
})

function createRank(
  { unit, tokenCount, seed }: Case,
  side: Pick<Rank, 'rank' | 'tpSize' | 'firstToken'> & {
    readonly layout: string
    readonly blockTokens: number
    readonly gap: number
  },
): Rank {
  const { layout, rank, tpSize, firstToken, blockTokens, gap } = side
  const heads = kvHeadCount / tpSize
  const used = Math.ceil(tokenCount / blockTokens) - firstToken / blockTokens
  const blockCount = used + spareBlocks
  const blockSizeBytes = blockTokens * heads * unit
  const blockStrideBytes = blockSizeBytes + gap * unit
  const regions = Array.from({ length: regionCount }, (_, region) => {
    const bytes = new Uint8Array(blockStrideBytes * blockCount).fill(untouched)
    const memory = { kind: 'host', sizeBytes: bytes.length, bytes, free: () => {} } as const
    return {
      ...{ name: `layer-${region}`, memory, offsetBytes: 0 },
      ...{ blockSizeBytes, blockStrideBytes, blockCount },
    }
  })
  // Scattered, no two alike: a step that has no divisor in common with the count.
  const step = [7, 5, 3, 1].find((one) => blockCount % one !== 0 || one === 1)!
  const blockIds = Uint32Array.from({ length: used }, (_, at) => (seed + at * step) % blockCount)
  const common = { model: 'm', dtype: 'd', layerCount: regionCount, headSize: 1 }
  const caches = { ...common, layout, kvHeadCount: heads, blockTokens, blockCount, regions }
  return { rank, tpSize, caches, blockIds, firstToken }
}

/** Where one byte of one head (counted over the model) of one token lies in that rank's region. */
function placeOf(
  { caches, blockIds, firstToken, rank }: Rank,
  token: number,
  head: number,
  region: number,
): number {
  const { blockTokens, layout } = caches
  const { blockSizeBytes, blockStrideBytes } = caches.regions[region]!
  const own = head - rank * caches.kvHeadCount
  const at = token - firstToken
  const slot = at % blockTokens
  const index = isHeadMajor(layout) ? own * blockTokens + slot : slot * caches.kvHeadCount + own
  const unit = blockSizeBytes / blockTokens / caches.kvHeadCount
  return blockIds[Math.floor(at / blockTokens)]! * blockStrideBytes + index * unit
}

const headsOf = ({ rank, caches }: Rank): number[] =>
  Array.from({ length: caches.kvHeadCount }, (_, index) => rank * caches.kvHeadCount + index)

const contentOf = (token: number, head: number, region: number, byte: number): number =>
  (token * 31 + head * 67 + region * 113 + byte * 7) % 251

function forEachByte(
  side: Rank,
  { start, end }: TokenRange,
  unit: number,
  visit: (bytes: Uint8Array, at: number, content: number, region: number) => void,
): void {
  for (const [region, { memory }] of side.caches.regions.entries()) {
    for (let token = start; token < end; token += 1) {
      for (const head of headsOf(side)) {
        const place = placeOf(side, token, head, region)
        for (let byte = 0; byte < unit; byte += 1) {
          visit(memory.bytes!, place + byte, contentOf(token, head, region, byte), region)
        }
      }
    }
  }
}

/** The bytes that one side of a transfer names, in the order in which the agent takes them. */
function streamOf({ caches }: Rank, side: TransferSide): (readonly [region: number, at: number])[] {
  const run = (region: number, start: number, length: number) =>
    Array.from({ length }, (_, index) => [region, start + index] as const)
  if ('blockIds' in side) {
    return caches.regions.flatMap(({ blockStrideBytes, blockSizeBytes }, region) =>
      [...side.blockIds].flatMap((id) => run(region, id * blockStrideBytes, blockSizeBytes)),
    )
  }
  return [...side.regions].flatMap((region, index) =>
    run(region, side.offsets[index]!, side.lengths[index]!),
  )
}

/** As a producer rank writes; `count` sees each byte of the target that is touched. */
function write(
  source: Rank,
  target: Rank,
  range: TokenRange,
  count: (region: number, at: number) => void,
): void {
  const sideOf = (own: Rank, other: Rank) => ({
    ...{ layout: own.caches, table, blockIds: own.blockIds, firstToken: own.firstToken },
    firstHead: firstSharedHead(
      { rank: own.rank, size: own.tpSize, headCount: own.caches.kvHeadCount },
      other.rank,
      other.tpSize,
    ),
  })
  const shared = Math.min(source.caches.kvHeadCount, target.caches.kvHeadCount)
  const plan = planTransfer(sideOf(source, target), sideOf(target, source), range, shared)
  const [from, to] = [streamOf(source, plan.source), streamOf(target, plan.target)]
  expect(to.length).toBe(from.length)
  for (const [index, [region, at]] of to.entries()) {
    const [sourceRegion, sourceAt] = from[index]!
    expect(region).toBe(sourceRegion)
    const { memory } = target.caches.regions[region]!
    memory.bytes![at] = source.caches.regions[region]!.memory.bytes![sourceAt]!
    count(region, at)
  }
}

async function checkRank(one: Case, dRank: number): Promise<void> {
  const { layouts, sizes, blocks, gaps, tokenCount, unit, hit, cut } = one
  const [pBlock, dBlock] = blocks
  const hitBlocks = Math.floor(hit * Math.ceil(tokenCount / dBlock))
  const target = createRank(one, {
    ...{ rank: dRank, tpSize: sizes[1], layout: layouts[1], blockTokens: dBlock, gap: gaps[1] },
    firstToken: hitBlocks * dBlock,
  })
  const { firstToken, caches, blockIds } = target
  const cutAt = Math.floor((cut * tokenCount) / pBlock) * pBlock
  const middle = Math.max(firstToken, cutAt)
  const writes = caches.regions.map(({ memory }) => new Uint8Array(memory.bytes!.length))
  for (const rank of matchingRanks(dRank, sizes[1], sizes[0])) {
    const source = createRank(one, {
      ...{ rank, tpSize: sizes[0], layout: layouts[0], blockTokens: pBlock, gap: gaps[0] },
      firstToken: 0,
    })
    const all = { start: 0, end: tokenCount }
    forEachByte(source, all, unit, (bytes, at, content) => (bytes[at] = content))
    for (const range of [
      { start: firstToken, end: middle },
      { start: middle, end: tokenCount },
    ]) {
      if (range.end <= range.start) continue
      write(source, target, range, (region, at) => (writes[region]![at]! += 1))
    }
  }
  const heads = kvHeadCount / sizes[0]
  const relayout = relayoutOf(
    caches,
    { layout: layouts[0], blockTokens: pBlock, kvHeadCount: heads },
    { blockIds, firstToken, end: tokenCount },
  )
  expect(Math.max(...writes.flatMap((counts) => [...counts]))).toBe(1)
  if (relayout !== null) {
    await createKernels().relayout(relayout.from, relayout.to, relayout.tokenCount)
  }
  const wrong: number[] = []
  const range = { start: firstToken, end: tokenCount }
  forEachByte(target, range, unit, (bytes, at, content, region) => {
    // Parts that are put in order afterwards were written somewhere else in their block.
    const isWritten = relayout !== null || writes[region]![at] === 1
    if (bytes[at] !== content || !isWritten) wrong.push(at)
  })
  expect(wrong).toEqual([])
  const named = new Set(blockIds)
  for (const [region, { memory, blockStrideBytes, blockSizeBytes }] of caches.regions.entries()) {
    memory.bytes!.forEach((byte, at) => {
      const isInside = named.has(Math.floor(at / blockStrideBytes))
      const isGap = at % blockStrideBytes >= blockSizeBytes
      if (isInside && !isGap) return
      if (byte !== untouched || writes[region]![at] !== 0)
        throw new Error(`byte ${at} of ${region}`)
    })
  }
}

test('every byte of every head of every token arrives exactly once', async () => {
  await fc.assert(
    fc.asyncProperty(caseArb, async (one) => {
      for (let rank = 0; rank < one.sizes[1]; rank += 1) await checkRank(one, rank)
    }),
    { numRuns: 80 },
  )
})
