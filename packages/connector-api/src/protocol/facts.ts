/**
 * What two engines must agree on before KV may move between them: collected once per worker,
 * exchanged in the handshake, compared field by field. The first difference is named with both values,
 * since "incompatible" alone helps nobody who has two config files to compare.
 */
import {
  canReorder,
  hasLayersInBlock,
  limits,
  type ConnectorCapabilities,
  type ConnectorFactory,
  type KvCacheLayout,
  type Rank,
} from '../index.ts'
import type { ByteReader, ByteWriter } from './bytes.ts'
import { protocolLimits } from './limits.ts'

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
/** The others need not be equal: of blocks, heads and ranks one side must have whole numbers of the other's. */
const equalFields = [
  ...textFields.filter((field) => field !== 'layout'),
  'layerCount',
  'headSize',
  'ppSize',
] as const

/** What the connector says it can map. */
type MappedFacts = Pick<ConnectorCapabilities, 'tensorParallel' | 'supportsDifferentLayouts'>

/** A field in which two engines differ, with both values. */
export interface FactMismatch {
  readonly field: string
  readonly local: string
  readonly remote: string
}

export function factsOf(
  { name, capabilities }: Pick<ConnectorFactory, 'name' | 'capabilities'>,
  caches: KvCacheLayout,
  rank: Rank,
): PeerFacts {
  return {
    connector: name,
    transferMode: capabilities.transferMode,
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

/**
 * The first difference, or null. Cheap causes of the others come first (the model before its layers).
 * By the connector's capabilities peers with other TP sizes or another order of tokens and heads are served.
 */
export function compareFacts(
  local: PeerFacts,
  remote: PeerFacts,
  { tensorParallel, supportsDifferentLayouts = false }: MappedFacts,
): FactMismatch | null {
  const differing = equalFields.find((field) => local[field] !== remote[field])
  if (differing !== undefined) return mismatch(differing, local[differing], remote[differing])
  const doReorder = local.layout !== remote.layout
  if (doReorder && !(supportsDifferentLayouts && canReorder(local.layout, remote.layout))) {
    return mismatch('layout', local.layout, remote.layout)
  }
  const isMapped = tensorParallel === 'mapped' && isWholeRatio(local.tpSize, remote.tpSize)
  if (local.tpSize !== remote.tpSize && !isMapped) {
    return mismatch('tpSize', local.tpSize, remote.tpSize)
  }
  // Of the model's heads each rank has its share.
  if (local.kvHeadCount * local.tpSize !== remote.kvHeadCount * remote.tpSize) {
    return mismatch('kvHeadCount', headsOf(local), headsOf(remote))
  }
  const isCut = local.layout !== remote.layout || local.kvHeadCount !== remote.kvHeadCount
  if ((isCut || local.blockTokens !== remote.blockTokens) && hasLayersInBlock(local.layout)) {
    return uncuttable(local, remote)
  }
  if (!isWholeRatio(local.blockTokens, remote.blockTokens)) {
    return mismatch('blockTokens', local.blockTokens, remote.blockTokens)
  }
  if (local.regions.length !== remote.regions.length) {
    return mismatch('regionCount', local.regions.length, remote.regions.length)
  }
  for (const [index, region] of local.regions.entries()) {
    const other = remote.regions[index]!
    if (region.name !== other.name) {
      return mismatch(`regions[${index}].name`, region.name, other.name)
    }
    // As many bytes for a head of a token.
    const [ours, theirs] = [unitsOf(local), unitsOf(remote)]
    if (region.blockSizeBytes * theirs !== other.blockSizeBytes * ours) {
      const field = `regions[${index}].blockSizeBytes`
      return mismatch(field, region.blockSizeBytes, other.blockSizeBytes)
    }
    // Heads that share a byte can't change places.
    if (doReorder && region.blockSizeBytes % ours !== 0) {
      return mismatch('layout', local.layout, remote.layout)
    }
  }
  return null
}

/** A head that each rank has (MLA) is the same number on both sides, and another share of the model. */
const headsOf = ({ kvHeadCount, tpSize }: PeerFacts): string =>
  tpSize === 1 ? String(kvHeadCount) : `${kvHeadCount} on each of ${tpSize} ranks`

/** A block of several layers travels as it is: neither some of its tokens lie together, nor some of its heads. */
function uncuttable(local: PeerFacts, remote: PeerFacts): FactMismatch {
  const fields = ['layout', 'tpSize', 'blockTokens'] as const
  const field = fields.find((field) => local[field] !== remote[field])!
  return mismatch(field, local[field], remote[field])
}

const isWholeRatio = (a: number, b: number): boolean => a % b === 0 || b % a === 0

const unitsOf = ({ blockTokens, kvHeadCount }: PeerFacts): number => blockTokens * kvHeadCount

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
  const texts = textFields.map((field) => [field, reader.string(protocolLimits.factSizeBytesMax)])
  const counts = countFields.map((field) => [field, reader.u32()])
  const regionCount = reader.count(limits.regionCountMax)
  const regions: RegionFacts[] = []
  for (let index = 0; index < regionCount; index++) {
    const name = reader.string(protocolLimits.factSizeBytesMax)
    const blockSizeBytes = reader.u32()
    regions.push({ name, blockSizeBytes, blockStrideBytes: reader.f64() })
  }
  return { ...Object.fromEntries([...texts, ...counts]), regions } as PeerFacts
}
