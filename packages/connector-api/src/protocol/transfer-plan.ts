/**
 * Which bytes of the source's blocks go where in the target's: the two sides of one READ or WRITE, and what
 * is left to do at the target afterwards. Pure; both sides come to the same plan from what the handshake
 * told them, whoever moves the bytes.
 *
 * With equal block sizes and heads, whole blocks are named. With others tokens are, cut where either side's
 * block ends: a token's bytes lie together where tokens come before heads in a block (LBNHC); where heads
 * come first (LBHNC) a cut block is moved head by head. When the target's blocks are whole numbers of the
 * source's, these travel as they are into parts of the target's, which puts them in order afterwards: one
 * descriptor instead of one per head. Where each side has only some of the other's heads (other TP sizes),
 * those of both are moved.
 *
 * Bytes travel in the source's order of tokens and heads. A target that has the other order puts its blocks
 * in order afterwards, in place: between the two, nothing longer than one head of one token lies together.
 */
import {
  hasSameOrder,
  isHeadMajor,
  limits,
  type BlockTableHandle,
  type KvCacheLayout,
  type TokenRun,
  type TransferSide,
} from '../index.ts'
import { limitExceeded } from './failures.ts'

/** How one side lays its tokens out; an engine's caches and a peer's facts both say it. */
export interface SideLayout {
  readonly layout: string
  readonly kvHeadCount: number
  readonly blockTokens: number
  readonly regions: readonly {
    readonly blockSizeBytes: number
    readonly blockStrideBytes: number
  }[]
}

/** Blocks of one request on one side. */
export interface PlanSide {
  readonly layout: SideLayout
  readonly table: BlockTableHandle
  readonly blockIds: Uint32Array
  /** The token with which the first of these blocks begins, counted from the prompt's start. */
  readonly firstToken: number
  /** Of this side's heads, the first that is moved. */
  readonly firstHead: number
}

/** Tokens `[start, end)`, counted from the prompt's start. `start` begins a block of the smaller ones. */
export interface TokenRange {
  readonly start: number
  readonly end: number
}

export interface TransferPlan {
  readonly source: TransferSide
  readonly target: TransferSide
}

/** Tokens to be put in order by the `relayout` kernel, in place. */
export interface Relayout {
  readonly from: TokenRun
  readonly to: TokenRun
  readonly tokenCount: number
}

/** @throws ConnectorError ERR_KV_LIMIT when it would take too many descriptors. */
export function planTransfer(
  source: PlanSide,
  target: PlanSide,
  range: TokenRange,
  headCount: number,
): TransferPlan {
  const [from, to] = [source.layout, target.layout]
  const isWhole = from.kvHeadCount === headCount && to.kvHeadCount === headCount
  if (isWhole && from.blockTokens === to.blockTokens) {
    return {
      source: { table: source.table, blockIds: idsOf(source, range) },
      target: { table: target.table, blockIds: idsOf(target, range) },
    }
  }
  if (isWhole && partsPerBlock(to, from) !== null) {
    const sourceIds = idsOf(source, range)
    const parts = partIds(target, from.blockTokens, range, sourceIds.length)
    return {
      source: { table: source.table, blockIds: sourceIds },
      target: segmentsOfParts(target, from.blockTokens, parts),
    }
  }
  const step = Math.min(from.blockTokens, to.blockTokens)
  const arriving = { ...target, layout: { ...to, layout: from.layout } }
  return {
    source: segmentsOfTokens(source, range, step, headCount),
    target: segmentsOfTokens(arriving, range, step, headCount),
  }
}

/** Of the source what decides how its bytes lie when they have arrived. */
export type SourceOrder = Pick<SideLayout, 'layout' | 'blockTokens' | 'kvHeadCount'>

/** Blocks of the target: they begin with token `firstToken`, and the tokens up to `end` are there. */
interface ArrivedRun {
  readonly blockIds: Uint32Array
  readonly firstToken: number
  readonly end: number
}

/** What the target has to put in order once all bytes have arrived as `planTransfer` says, or null. */
export function relayoutOf(
  caches: KvCacheLayout,
  source: SourceOrder,
  run: ArrivedRun,
): Relayout | null {
  const isWhole = source.kvHeadCount === caches.kvHeadCount
  const perBlock = isWhole ? partsPerBlock(caches, source) : null
  if (perBlock !== null) return relayoutOfParts(caches, source, run, perBlock)
  // A block of one head is the same in either order.
  if (caches.kvHeadCount === 1 || hasSameOrder(source.layout, caches.layout)) return null
  const tokenCount = run.end - run.firstToken
  const blockIds = run.blockIds.slice(0, Math.ceil(tokenCount / caches.blockTokens))
  return {
    from: { caches: { ...caches, layout: source.layout }, blockIds },
    to: { caches, blockIds },
    tokenCount,
  }
}

/** The target's blocks are made of whole ones of the source, in its size and order. */
function relayoutOfParts(
  caches: KvCacheLayout,
  { layout, blockTokens: sourceBlockTokens }: SourceOrder,
  { blockIds, firstToken, end }: ArrivedRun,
  perBlock: number,
): Relayout {
  const ratio = caches.blockTokens / sourceBlockTokens
  const regions = caches.regions.map((region) => {
    const blockSizeBytes = region.blockSizeBytes / ratio
    const blockCount = (region.blockCount - 1) * perBlock + ratio
    return { ...region, blockSizeBytes, blockStrideBytes: blockSizeBytes, blockCount }
  })
  const parts = { ...caches, layout, blockTokens: sourceBlockTokens, regions }
  const tokenCount = end - firstToken
  const count = Math.ceil(tokenCount / sourceBlockTokens)
  const ids = Uint32Array.from(
    { length: count },
    (_, at) => blockIds[Math.floor(at / ratio)]! * perBlock + (at % ratio),
  )
  return {
    from: { caches: parts, blockIds: ids },
    to: { caches, blockIds: blockIds.slice(0, Math.ceil(count / ratio)) },
    tokenCount,
  }
}

/**
 * The target's block distance in blocks of the source's size, where these are moved whole; null where they
 * are not: the source's tokens come first, the target's blocks are no larger, or its stride leaves none whole.
 */
function partsPerBlock(
  target: SideLayout,
  source: Pick<SourceOrder, 'layout' | 'blockTokens'>,
): number | null {
  const ratio = target.blockTokens / source.blockTokens
  if (ratio <= 1 || !Number.isInteger(ratio) || !isHeadMajor(source.layout)) return null
  const [first] = target.regions
  const perBlock = first!.blockStrideBytes / (first!.blockSizeBytes / ratio)
  const isWhole =
    Number.isInteger(perBlock) &&
    target.regions.every(
      ({ blockSizeBytes, blockStrideBytes }) =>
        blockStrideBytes === perBlock * (blockSizeBytes / ratio),
    )
  return isWhole ? perBlock : null
}

function idsOf(
  { layout, blockIds, firstToken }: PlanSide,
  { start, end }: TokenRange,
): Uint32Array {
  const { blockTokens } = layout
  return blockIds.slice(
    Math.floor((start - firstToken) / blockTokens),
    Math.ceil((end - firstToken) / blockTokens),
  )
}

/** Parts of the target's blocks in the source's block size: `[block, part of it]`, one after the other. */
function partIds(
  { layout, blockIds, firstToken }: PlanSide,
  partTokens: number,
  { start }: TokenRange,
  count: number,
): readonly (readonly [block: number, part: number])[] {
  const ratio = layout.blockTokens / partTokens
  const first = (start - firstToken) / partTokens
  return Array.from({ length: count }, (_, index) => {
    const at = first + index
    return [blockIds[Math.floor(at / ratio)]!, at % ratio] as const
  })
}

/** A table of larger blocks has no ids for parts: they are named as bytes. */
function segmentsOfParts(
  { layout, table }: PlanSide,
  partTokens: number,
  parts: readonly (readonly [block: number, part: number])[],
): TransferSide {
  const sides = emptySegments(table, layout.regions.length * parts.length)
  let at = 0
  for (const [region, { blockSizeBytes, blockStrideBytes }] of layout.regions.entries()) {
    const partSizeBytes = (blockSizeBytes / layout.blockTokens) * partTokens
    for (const [block, part] of parts) {
      sides.regions[at] = region
      sides.offsets[at] = block * blockStrideBytes + part * partSizeBytes
      sides.lengths[at] = partSizeBytes
      at += 1
    }
  }
  return sides
}

/** Region by region, in each head by head where heads come first, in token order: the same on both sides. */
function segmentsOfTokens(
  { layout, table, blockIds, firstToken, firstHead }: PlanSide,
  range: TokenRange,
  step: number,
  headCount: number,
): TransferSide {
  const { blockTokens, kvHeadCount, regions } = layout
  const hasHeadsFirst = isHeadMajor(layout.layout)
  const isSlice = headCount < kvHeadCount
  // Where tokens come first, some heads of several tokens don't lie together.
  const pieces = cut(range, hasHeadsFirst || !isSlice ? step : 1)
  const headRuns = hasHeadsFirst ? headCount : 1
  const sides = emptySegments(table, regions.length * headRuns * pieces.length)
  let at = 0
  for (const [region, { blockSizeBytes, blockStrideBytes }] of regions.entries()) {
    const unit = blockSizeBytes / blockTokens / kvHeadCount
    for (let run = 0; run < headRuns; run++) {
      for (const { start, end } of pieces) {
        const position = start - firstToken
        const slot = position % blockTokens
        const inBlock = hasHeadsFirst
          ? (firstHead + run) * blockTokens + slot
          : slot * kvHeadCount + firstHead
        sides.regions[at] = region
        sides.offsets[at] =
          blockIds[Math.floor(position / blockTokens)]! * blockStrideBytes + inBlock * unit
        sides.lengths[at] = (end - start) * unit * (hasHeadsFirst ? 1 : headCount)
        at += 1
      }
    }
  }
  return sides
}

/** A step is the smaller block, and the range starts at one: no piece crosses a block. */
function cut({ start, end }: TokenRange, step: number): TokenRange[] {
  const pieces: TokenRange[] = []
  for (let at = start; at < end; at += step) {
    pieces.push({ start: at, end: Math.min(at + step, end) })
  }
  return pieces
}

function emptySegments(table: BlockTableHandle, count: number) {
  const max = limits.descriptorsPerPostMax
  if (count > max) throw limitExceeded('descriptorsPerPostMax', count, max)
  return {
    table,
    regions: new Uint32Array(count),
    offsets: new Float64Array(count),
    lengths: new Float64Array(count),
  }
}
