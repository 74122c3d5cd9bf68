/**
 * The meaning of a post in the plainest words: gather the source's bytes in stream order, lay them over
 * the destination in stream order. Independent of any implementation; speed doesn't matter.
 */
import type { PeerRegion } from '../../testing/agent-peer.ts'

/** A side without its table: blocks, or segments as triples. */
export type SideModel =
  | { readonly blockIds: readonly number[] }
  | {
      readonly segments: readonly {
        readonly region: number
        readonly offset: number
        readonly length: number
      }[]
    }

interface ByteRange {
  readonly region: number
  /** From the start of the region's memory, lead included. */
  readonly start: number
  readonly length: number
}

export function rangesOf(regions: readonly PeerRegion[], side: SideModel): ByteRange[] {
  if ('segments' in side) {
    return side.segments.map(({ region, offset, length }) => {
      return { region, start: regions[region]!.leadBytes + offset, length }
    })
  }
  return regions.flatMap((layout, region) =>
    side.blockIds.map((id) => {
      const start = layout.leadBytes + id * layout.blockStrideBytes
      return { region, start, length: layout.blockSizeBytes }
    }),
  )
}

export const totalBytesOf = (regions: readonly PeerRegion[], side: SideModel): number =>
  rangesOf(regions, side).reduce((sum, { length }) => sum + length, 0)

export interface ModelSide {
  readonly regions: readonly PeerRegion[]
  readonly side: SideModel
  /** Whole memory of each region. */
  readonly memories: readonly Uint8Array[]
}

/** What the destination's memories hold afterwards. */
export function expectedAfter(source: ModelSide, destination: ModelSide): Uint8Array[] {
  const stream = rangesOf(source.regions, source.side).flatMap(({ region, start, length }) => {
    return [source.memories[region]!.subarray(start, start + length)]
  })
  const bytes = new Uint8Array(stream.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of stream) {
    bytes.set(part, at)
    at += part.length
  }
  const after = destination.memories.map((memory) => memory.slice())
  at = 0
  for (const { region, start, length } of rangesOf(destination.regions, destination.side)) {
    after[region]!.set(bytes.subarray(at, at + length), start)
    at += length
  }
  return after
}
