/**
 * How a transfer is cut into slabs. Pure: whoever knows the pieces of the target's side, in stream order,
 * comes to the same slabs, which is how both sides of a ticket name one by its number. The agents cut
 * by the same rule (native-nixl has it in C++, compared in a test).
 *
 * A slab holds the payload (stream bytes in order, nothing between them), and after it, from the next
 * multiple of 8, the list of the target's pieces in runs of equal length: 16 bytes a run, 8 bytes a piece.
 * Neighbours in the target's memory are one piece. Pieces are added while both still fit; the last is cut
 * where the payload is full.
 */
import { assert } from './assert.ts'

/** Stream bytes `[start, end)`, of which the list takes `listBytes`. */
export interface SlabRange {
  readonly start: number
  readonly end: number
  readonly listBytes: number
}

/** The target's pieces in stream order; those that touch must have been merged (`mergePieces`). */
export interface SlabPieces {
  readonly addresses: Float64Array
  readonly lengths: Float64Array
}

export const slabRunBytes = 16
export const slabPieceBytes = 8

const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8

/** Merges pieces that follow one another in the stream and in memory. */
export function mergePieces({ addresses, lengths }: SlabPieces): SlabPieces {
  const merged = { addresses: new Float64Array(lengths.length), lengths: lengths.slice() }
  let count = 0
  lengths.forEach((length, index) => {
    const address = addresses[index]!
    const last = count - 1
    if (last >= 0 && merged.addresses[last]! + merged.lengths[last]! === address) {
      merged.lengths[last]! += length
      return
    }
    merged.addresses[count] = address
    merged.lengths[count] = length
    count += 1
  })
  return { addresses: merged.addresses.slice(0, count), lengths: merged.lengths.slice(0, count) }
}

/**
 * The slabs of one transfer, in order; together they cover the stream once.
 * @throws RangeError for a slab that can't hold a single byte with its list.
 */
export function planSlabs(
  { lengths }: Pick<SlabPieces, 'lengths'>,
  slabSizeBytes: number,
): SlabRange[] {
  if (slabSizeBytes < slabRunBytes + slabPieceBytes + 8) {
    throw new RangeError(`a slab of ${slabSizeBytes} bytes holds no piece and its list`)
  }
  const slabs: SlabRange[] = []
  let start = 0
  let payload = 0
  let listBytes = 0
  let runLength = -1
  const close = (): void => {
    slabs.push({ start, end: start + payload, listBytes })
    start += payload
    payload = 0
    listBytes = 0
    runLength = -1
  }
  for (const length of lengths) {
    let left = length
    while (left > 0) {
      const isSameRun = left === runLength
      const cost = slabPieceBytes + (isSameRun ? 0 : slabRunBytes)
      if (aligned(payload + left) + listBytes + cost <= slabSizeBytes) {
        payload += left
        listBytes += cost
        runLength = left
        left = 0
        continue
      }
      // What still fits of it starts a run of its own, as its length is none that was before.
      const room =
        Math.floor((slabSizeBytes - listBytes - slabRunBytes - slabPieceBytes) / 8) * 8 - payload
      if (room > 0 && room < left) {
        payload += room
        listBytes += slabRunBytes + slabPieceBytes
        left -= room
      }
      assert(payload > 0, 'a slab without a byte')
      close()
    }
  }
  if (payload > 0) close()
  return slabs
}
