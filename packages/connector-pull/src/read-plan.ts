/**
 * Which bytes of the producer go where: the two sides of one READ, and what is left to do with the bytes
 * afterwards. Pure. Called by load-table.ts once the producer's layout is known.
 *
 * With equal block sizes whole blocks are named. With others tokens are, cut where either side's block
 * ends: a token's bytes lie together where tokens come before heads in a block (LBNHC); where heads come
 * first (LBHNC) a cut block is read head by head. When our blocks are whole numbers of the producer's, its
 * blocks are read as they are into parts of ours and put in order afterwards: one descriptor instead of
 * one per head.
 */
import {
  isHeadMajor,
  limits,
  type BlockTableHandle,
  type KvCacheLayout,
  type TokenRun,
  type TransferSide,
} from '@kvferry/connector-api'
import type { PeerFacts } from './facts.ts'
import { limitExceeded } from './failures.ts'
import type { LoadOrder } from './load-record.ts'

/** One rank's cache and its block table. */
export interface LocalCache {
  readonly caches: KvCacheLayout
  readonly table: BlockTableHandle
}

/** Tokens to be put in order by the `relayout` kernel, in place. */
export interface Relayout {
  readonly from: TokenRun
  readonly to: TokenRun
  readonly tokenCount: number
}

export interface ReadPlan {
  readonly local: TransferSide
  readonly remote: TransferSide
  readonly relayout: Relayout | null
}

/** How one side lays its tokens out: where the bytes of a token of one head begin. */
interface Side {
  readonly blockIds: Uint32Array
  readonly blockTokens: number
  readonly strides: readonly number[]
}

/** Tokens `[start, end)`, counted from the prompt's start; within one block on both sides. */
interface Piece {
  readonly start: number
  readonly end: number
}

/** The first token that is read: what was hit locally is missing in front, in whole blocks of ours. */
export function firstTokenOf({ tokenEnd, localBlockIds }: LoadOrder, blockTokens: number): number {
  const blockCount = Math.ceil(tokenEnd / blockTokens)
  return (blockCount - localBlockIds[0]!.length) * blockTokens
}

/** @throws ConnectorError ERR_KV_LIMIT when it would take too many descriptors. */
export function planRead(
  order: LoadOrder,
  { caches, table }: LocalCache,
  remote: { readonly facts: PeerFacts; readonly table: BlockTableHandle },
): ReadPlan {
  const { handoff, tokenEnd } = order
  const blockIds = order.localBlockIds[0]!
  const first = firstTokenOf(order, caches.blockTokens)
  const ratio = caches.blockTokens / handoff.blockTokens
  // Both lists end at the block of the last token that is wanted.
  const remoteIds = handoff.blockIds.slice(
    Math.floor(first / handoff.blockTokens),
    Math.ceil(tokenEnd / handoff.blockTokens),
  )
  if (ratio === 1) {
    return {
      local: { table, blockIds },
      remote: { table: remote.table, blockIds: remoteIds },
      relayout: null,
    }
  }
  const parts = isHeadMajor(caches.layout) && ratio > 1 ? partsOf(caches, ratio) : null
  if (parts !== null) {
    const partIds = remoteIds.map(
      (_, at) => blockIds[Math.floor(at / ratio)]! * parts.perBlock + (at % ratio),
    )
    const tokenCount = tokenEnd - first
    return {
      local: segmentsOfBlocks(table, parts.caches, partIds),
      remote: { table: remote.table, blockIds: remoteIds },
      relayout: {
        from: { caches: parts.caches, blockIds: partIds },
        to: { caches, blockIds },
        tokenCount,
      },
    }
  }
  const local: Side = {
    blockIds,
    blockTokens: caches.blockTokens,
    strides: caches.regions.map(({ blockStrideBytes }) => blockStrideBytes),
  }
  const producer: Side = {
    blockIds: handoff.blockIds,
    blockTokens: handoff.blockTokens,
    strides: remote.facts.regions.map(({ blockStrideBytes }) => blockStrideBytes),
  }
  const pieces = cut(first, tokenEnd, local.blockTokens, producer.blockTokens)
  return {
    local: segmentsOfTokens(table, caches, local, pieces, first),
    remote: segmentsOfTokens(remote.table, caches, producer, pieces, 0),
    relayout: null,
  }
}

/** Our cache seen in the producer's block size; null where our stride leaves none of its blocks whole. */
function partsOf(
  caches: KvCacheLayout,
  ratio: number,
): { readonly caches: KvCacheLayout; readonly perBlock: number } | null {
  const [first] = caches.regions
  const perBlock = first!.blockStrideBytes / (first!.blockSizeBytes / ratio)
  const regions = caches.regions.map((region) => {
    const blockSizeBytes = region.blockSizeBytes / ratio
    const blockStrideBytes = blockSizeBytes
    const blockCount = (region.blockCount - 1) * perBlock + ratio
    return { ...region, blockSizeBytes, blockStrideBytes, blockCount }
  })
  const isWhole =
    Number.isInteger(perBlock) &&
    caches.regions.every(
      (region, at) => region.blockStrideBytes === perBlock * regions[at]!.blockSizeBytes,
    )
  const blockTokens = caches.blockTokens / ratio
  return isWhole ? { caches: { ...caches, blockTokens, regions }, perBlock } : null
}

/** A table of larger blocks has no ids for parts: they are named as bytes. */
function segmentsOfBlocks(
  table: BlockTableHandle,
  parts: KvCacheLayout,
  ids: Uint32Array,
): TransferSide {
  const count = parts.regions.length * ids.length
  checkDescriptors(count)
  const sides = {
    table,
    regions: new Uint32Array(count),
    offsets: new Float64Array(count),
    lengths: new Float64Array(count),
  }
  let at = 0
  for (const [region, { blockSizeBytes }] of parts.regions.entries()) {
    for (const id of ids) {
      sides.regions[at] = region
      sides.offsets[at] = id * blockSizeBytes
      sides.lengths[at] = blockSizeBytes
      at += 1
    }
  }
  return sides
}

function cut(first: number, end: number, left: number, right: number): Piece[] {
  const pieces: Piece[] = []
  const step = Math.min(left, right)
  for (let start = first; start < end; start += step) {
    pieces.push({ start, end: Math.min(start + step, end) })
  }
  return pieces
}

/** Region by region, in each head by head where heads come first, in token order: the same on both sides. */
function segmentsOfTokens(
  table: BlockTableHandle,
  caches: KvCacheLayout,
  side: Side,
  pieces: readonly Piece[],
  firstToken: number,
): TransferSide {
  const headCount = isHeadMajor(caches.layout) ? caches.kvHeadCount : 1
  const count = caches.regions.length * headCount * pieces.length
  checkDescriptors(count)
  const sides = {
    table,
    regions: new Uint32Array(count),
    offsets: new Float64Array(count),
    lengths: new Float64Array(count),
  }
  let at = 0
  for (const [region, { blockSizeBytes }] of caches.regions.entries()) {
    const unit = blockSizeBytes / caches.blockTokens / headCount
    for (let head = 0; head < headCount; head++) {
      for (const { start, end } of pieces) {
        const position = start - firstToken
        const block = side.blockIds[Math.floor(position / side.blockTokens)]!
        const inBlock = head * side.blockTokens + (position % side.blockTokens)
        sides.regions[at] = region
        sides.offsets[at] = block * side.strides[region]! + inBlock * unit
        sides.lengths[at] = (end - start) * unit
        at += 1
      }
    }
  }
  return sides
}

function checkDescriptors(count: number): void {
  const max = limits.descriptorsPerPostMax
  if (count > max) throw limitExceeded('descriptorsPerPostMax', count, max)
}
