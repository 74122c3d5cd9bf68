/**
 * What two engines must agree on before one may read the other's blocks: collected once per worker,
 * exchanged in the handshake, compared field by field. The first difference is named with both values,
 * since "incompatible" alone helps nobody who has two config files to compare.
 */
import { limits, type KvCacheLayout, type Rank } from '@kvferry/connector-api'
import type { ByteReader, ByteWriter } from './bytes.ts'
import { pullLimits } from './limits.ts'

export interface RegionFacts {
  readonly name: string
  readonly blockSizeBytes: number
  /** Where parts of blocks are read. It need not agree. */
  readonly blockStrideBytes: number
}

export interface PeerFacts {
  readonly connector: string
  readonly transferMode: string
  readonly model: string
  readonly dtype: string
  readonly layout: string
  readonly layerCount: number
  readonly kvHeadCount: number
  readonly headSize: number
  readonly blockTokens: number
  readonly tpSize: number
  readonly ppSize: number
  readonly regions: readonly RegionFacts[]
}

const textFields = ['connector', 'transferMode', 'model', 'dtype', 'layout'] as const
const countFields = [
  'layerCount',
  'kvHeadCount',
  'headSize',
  'blockTokens',
  'tpSize',
  'ppSize',
] as const
/** These need not be equal: blocks of one side must be whole numbers of the other's. */
const equalFields = [...textFields, ...countFields.filter((field) => field !== 'blockTokens')]

/** A field in which two engines differ, with both values. */
export interface FactMismatch {
  readonly field: string
  readonly local: string
  readonly remote: string
}

export function factsOf(caches: KvCacheLayout, rank: Rank): PeerFacts {
  return {
    connector: 'pull',
    transferMode: 'pull',
    model: caches.model,
    dtype: caches.dtype,
    layout: caches.layout,
    layerCount: caches.layerCount,
    kvHeadCount: caches.kvHeadCount,
    headSize: caches.headSize,
    blockTokens: caches.blockTokens,
    tpSize: rank.tpSize,
    ppSize: rank.ppSize,
    regions: caches.regions.map(({ name, blockSizeBytes, blockStrideBytes }) => ({
      name,
      blockSizeBytes,
      blockStrideBytes,
    })),
  }
}

/** The first difference, or null. Cheap causes of the others come first (the model before its layers). */
export function compareFacts(local: PeerFacts, remote: PeerFacts): FactMismatch | null {
  const differing = equalFields.find((field) => local[field] !== remote[field])
  if (differing !== undefined) return mismatch(differing, local[differing], remote[differing])
  const [ours, theirs] = [local.blockTokens, remote.blockTokens]
  if (ours % theirs !== 0 && theirs % ours !== 0) return mismatch('blockTokens', ours, theirs)
  if (local.regions.length !== remote.regions.length) {
    return mismatch('regionCount', local.regions.length, remote.regions.length)
  }
  for (const [index, region] of local.regions.entries()) {
    const other = remote.regions[index]!
    if (region.name !== other.name) {
      return mismatch(`regions[${index}].name`, region.name, other.name)
    }
    // As many bytes for a token: block sizes may differ.
    if (region.blockSizeBytes * theirs !== other.blockSizeBytes * ours) {
      const field = `regions[${index}].blockSizeBytes`
      return mismatch(field, region.blockSizeBytes, other.blockSizeBytes)
    }
  }
  return null
}

const mismatch = (
  field: string,
  local: string | number,
  remote: string | number,
): FactMismatch => ({ field, local: String(local), remote: String(remote) })

export function writeFacts(writer: ByteWriter, facts: PeerFacts): void {
  for (const field of textFields) writer.string(facts[field])
  for (const field of countFields) writer.u32(facts[field])
  writer.u32(facts.regions.length)
  for (const { name, blockSizeBytes, blockStrideBytes } of facts.regions) {
    writer.string(name).u32(blockSizeBytes).f64(blockStrideBytes)
  }
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function readFacts(reader: ByteReader): PeerFacts {
  const texts = textFields.map((field) => [field, reader.string(pullLimits.factSizeBytesMax)])
  const counts = countFields.map((field) => [field, reader.u32()])
  const regionCount = reader.count(limits.regionCountMax)
  const regions: RegionFacts[] = []
  for (let index = 0; index < regionCount; index++) {
    const name = reader.string(pullLimits.factSizeBytesMax)
    const blockSizeBytes = reader.u32()
    regions.push({ name, blockSizeBytes, blockStrideBytes: reader.f64() })
  }
  return { ...Object.fromEntries([...texts, ...counts]), regions } as PeerFacts
}
