/**
 * One transfer as several, one per slab: what a ticket's two holders both derive, so that "slab 3" means the
 * same bytes to both. Pure. The agents need none of it: a post of any length is cut by them.
 */
import { mergePieces, planSlabs, type SlabPieces, type SlabRange } from '../slab-plan.ts'
import type { TransferSide } from '../transfer-agent.ts'
import type { TransferPlan } from './transfer-plan.ts'

/** Of each region of a side's table, as the caches and the handshake's facts say. */
export interface SideRegion {
  readonly blockSizeBytes: number
  readonly blockStrideBytes: number
}

/** Segments in stream order: the same bytes as the side's blocks. */
interface Segments {
  readonly regions: Uint32Array
  readonly offsets: Float64Array
  readonly lengths: Float64Array
}

/** Distance between regions where their addresses aren't known; no region is that long. */
const regionDistanceBytes = 2 ** 42

/** The slabs of one transfer, from the target's side alone: the source cuts where the target does. */
export function planSlabsOf(
  target: TransferSide,
  regions: readonly SideRegion[],
  slabSizeBytes: number,
): SlabRange[] {
  return planSlabs(mergePieces(piecesOf(segmentsOf(target, regions))), slabSizeBytes)
}

/**
 * The part of a side that is stream bytes `[start, end)`.
 * @throws RangeError when the stream is shorter.
 */
export function sliceSide(
  side: TransferSide,
  regions: readonly SideRegion[],
  { start, end }: Pick<SlabRange, 'start' | 'end'>,
): TransferSide {
  const whole = segmentsOf(side, regions)
  const found: number[][] = []
  let at = 0
  for (const [index, length] of whole.lengths.entries()) {
    const from = Math.max(start, at)
    const to = Math.min(end, at + length)
    if (from < to) {
      found.push([whole.regions[index]!, whole.offsets[index]! + (from - at), to - from])
    }
    at += length
  }
  if (!(start >= 0 && start < end && end <= at)) {
    throw new RangeError(`bytes ${start} … ${end} of a stream of ${at}`)
  }
  return {
    table: side.table,
    regions: Uint32Array.from(found, ([region]) => region!),
    offsets: Float64Array.from(found, ([, offset]) => offset!),
    lengths: Float64Array.from(found, ([, , length]) => length!),
  }
}

/** Both sides of every slab of a plan. */
export function slabPlans(
  { source, target }: TransferPlan,
  regions: { readonly source: readonly SideRegion[]; readonly target: readonly SideRegion[] },
  slabSizeBytes: number,
): TransferPlan[] {
  return planSlabsOf(target, regions.target, slabSizeBytes).map((range) => ({
    source: sliceSide(source, regions.source, range),
    target: sliceSide(target, regions.target, range),
  }))
}

function segmentsOf(side: TransferSide, regions: readonly SideRegion[]): Segments {
  if (!('blockIds' in side)) return side
  const { blockIds } = side
  const count = regions.length * blockIds.length
  const segments = {
    regions: new Uint32Array(count),
    offsets: new Float64Array(count),
    lengths: new Float64Array(count),
  }
  let at = 0
  for (const [region, { blockSizeBytes, blockStrideBytes }] of regions.entries()) {
    for (const block of blockIds) {
      segments.regions[at] = region
      segments.offsets[at] = block * blockStrideBytes
      segments.lengths[at] = blockSizeBytes
      at += 1
    }
  }
  return segments
}

function piecesOf({ regions, offsets, lengths }: Segments): SlabPieces {
  const addresses = offsets.map((offset, index) => regions[index]! * regionDistanceBytes + offset)
  return { addresses, lengths }
}
