/**
 * Block tables: a local one over own regions, or an imported one of a peer. Owns the checks of what may
 * be declared and the turning of one side of a post into addressed pieces. Every value from outside is
 * checked here before anything is enqueued.
 */
import { limits } from '../../limits.ts'
import type { PeerHandle, RegionHandle, TransferSide } from '../../transfer-agent.ts'
import type { BlockTableRegion } from '../../transfer-agent.ts'
import { placedSizeBytes } from './wire.ts'
import type { PlacedRegion } from './wire.ts'

export interface BlockTable {
  /** Null for a local table. */
  readonly peer: PeerHandle | null
  readonly regions: readonly PlacedRegion[]
  readonly blockCount: number
  /** Of a local table; empty for an imported one. */
  readonly regionHandles: readonly RegionHandle[]
  /** Transfers without final status that use it. */
  openTransferCount: number
}

/** Addressed pieces of one side, in stream order. */
export interface Pieces {
  readonly addresses: Float64Array
  /** Index of each piece's region in its table: nothing is merged across regions. */
  readonly regions: Uint32Array
  readonly lengths: Float64Array
  readonly totalBytes: number
}

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) > 0

/** @throws RangeError unless all blocks lie within `lengthBytes` of the registered region. */
export function placeRegion(
  declared: BlockTableRegion,
  region: { readonly address: number; readonly lengthBytes: number },
): PlacedRegion {
  const { offsetBytes, blockSizeBytes, blockStrideBytes, blockCount } = declared
  const isPossible =
    Number.isSafeInteger(offsetBytes) &&
    offsetBytes >= 0 &&
    isCount(blockSizeBytes) &&
    isCount(blockStrideBytes) &&
    isCount(blockCount) &&
    blockStrideBytes >= blockSizeBytes
  if (!isPossible || offsetBytes + placedSizeBytes(declared) > region.lengthBytes) {
    throw new RangeError(`blocks exceed their region: ${JSON.stringify(declared)}`)
  }
  return { address: region.address + offsetBytes, blockSizeBytes, blockStrideBytes, blockCount }
}

/** @throws RangeError for no regions, too many, or unequal block counts. */
export function assertTableShape(regions: readonly { readonly blockCount: number }[]): void {
  if (regions.length === 0 || regions.length > limits.regionCountMax) {
    throw new RangeError(`a table has 1 to ${limits.regionCountMax} regions, not ${regions.length}`)
  }
  if (regions.some((region) => region.blockCount !== regions[0]!.blockCount)) {
    throw new RangeError('all regions of a table have the same block count')
  }
}

function piecesOfBlocks(table: BlockTable, blockIds: Uint32Array, where: string): Pieces {
  const idCount = blockIds.length
  const count = idCount * table.regions.length
  if (idCount === 0) throw new RangeError(`${where}: no blocks`)
  if (idCount > limits.blocksPerPostMax || count > limits.descriptorsPerPostMax) {
    throw new RangeError(`${where}: ${idCount} blocks of ${table.regions.length} regions`)
  }
  const past = blockIds.find((id) => id >= table.blockCount)
  if (past !== undefined) throw new RangeError(`${where}: block ${past} of ${table.blockCount}`)
  const addresses = new Float64Array(count)
  const lengths = new Float64Array(count)
  const regions = new Uint32Array(count)
  let totalBytes = 0
  table.regions.forEach((region, regionIndex) => {
    const first = regionIndex * idCount
    for (let index = 0; index < idCount; index += 1) {
      addresses[first + index] = region.address + blockIds[index]! * region.blockStrideBytes
    }
    lengths.fill(region.blockSizeBytes, first, first + idCount)
    regions.fill(regionIndex, first, first + idCount)
    totalBytes += idCount * region.blockSizeBytes
  })
  return { addresses, regions, lengths, totalBytes }
}

type Segments = Extract<TransferSide, { regions: Uint32Array }>

function piecesOfSegments(table: BlockTable, segments: Segments, where: string): Pieces {
  const { regions, offsets, lengths } = segments
  const count = regions.length
  if (count === 0) throw new RangeError(`${where}: no segments`)
  if (count > limits.descriptorsPerPostMax) throw new RangeError(`${where}: ${count} segments`)
  const addresses = new Float64Array(count)
  let totalBytes = 0
  for (let index = 0; index < count; index += 1) {
    const region = table.regions[regions[index]!]
    const offset = offsets[index]!
    const length = lengths[index]!
    const isWithin =
      region !== undefined &&
      Number.isSafeInteger(offset) &&
      offset >= 0 &&
      isCount(length) &&
      offset + length <= placedSizeBytes(region)
    if (!isWithin) {
      throw new RangeError(`${where}: segment ${index}: ${length} bytes at ${offset}`)
    }
    addresses[index] = region.address + offset
    totalBytes += length
  }
  return { addresses, regions, lengths, totalBytes }
}

/**
 * @throws TypeError when the side has neither form; RangeError for ids, offsets and lengths out of bounds.
 */
export function piecesOf(table: BlockTable, side: TransferSide, where: string): Pieces {
  if ('blockIds' in side) {
    if (!(side.blockIds instanceof Uint32Array)) {
      throw new TypeError(`${where}.blockIds must be a Uint32Array`)
    }
    return piecesOfBlocks(table, side.blockIds, where)
  }
  const isForm =
    side.regions instanceof Uint32Array &&
    side.offsets instanceof Float64Array &&
    side.lengths instanceof Float64Array
  if (!isForm) throw new TypeError(`${where}: regions, offsets and lengths must be typed arrays`)
  if (side.regions.length !== side.offsets.length || side.regions.length !== side.lengths.length) {
    throw new TypeError(`${where}: regions, offsets and lengths differ in length`)
  }
  return piecesOfSegments(table, side, where)
}
