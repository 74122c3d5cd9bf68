/**
 * How agents of the fabric describe themselves and their tables to one another: bytes with a magic
 * number, a version and a length, decoded with bounds, because they cross the side channel and a peer
 * may send anything. The real agent's forms differ; connectors treat both as opaque.
 */
import { ConnectorError } from '../../errors.ts'
import { limits } from '../../limits.ts'

export interface AddressRange {
  readonly address: number
  readonly lengthBytes: number
}

export interface AgentMetadata {
  /** Which life of which agent; names may come back, instances don't. */
  readonly instance: number
  readonly name: string
  readonly regions: readonly AddressRange[]
}

/** One region of a table with its place in the address space. */
export interface PlacedRegion {
  /** Address of block 0. */
  readonly address: number
  readonly blockSizeBytes: number
  readonly blockStrideBytes: number
  readonly blockCount: number
}

export interface ExportedTable {
  readonly instance: number
  readonly regions: readonly PlacedRegion[]
}

const magic = { metadata: 0x4d454d41, table: 0x4d454d54 } as const
const version = 1
const headerSizeBytes = 16

/** Bytes from block 0 to the end of the last block. */
export const placedSizeBytes = (region: Omit<PlacedRegion, 'address'>): number =>
  (region.blockCount - 1) * region.blockStrideBytes + region.blockSizeBytes

const invalid = (where: string, reason: string): ConnectorError =>
  new ConnectorError('ERR_KV_MESSAGE_INVALID', `${where}: ${reason}`, { where, reason })

function encode(kind: keyof typeof magic, numbers: readonly number[], text: string): Uint8Array {
  const textBytes = new TextEncoder().encode(text)
  const bytes = new Uint8Array(headerSizeBytes + numbers.length * 8 + textBytes.length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, magic[kind], true)
  view.setUint32(4, version, true)
  view.setUint32(8, numbers.length, true)
  view.setUint32(12, textBytes.length, true)
  numbers.forEach((value, index) => view.setFloat64(headerSizeBytes + index * 8, value, true))
  bytes.set(textBytes, headerSizeBytes + numbers.length * 8)
  return bytes
}

function decode(kind: keyof typeof magic, bytes: Uint8Array): { numbers: number[]; text: string } {
  if (bytes.length < headerSizeBytes) throw invalid(kind, `${bytes.length} bytes`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.getUint32(0, true) !== magic[kind]) throw invalid(kind, 'wrong magic number')
  if (view.getUint32(4, true) !== version) throw invalid(kind, 'unknown version')
  const count = view.getUint32(8, true)
  const textSizeBytes = view.getUint32(12, true)
  if (headerSizeBytes + count * 8 + textSizeBytes !== bytes.length) {
    throw invalid(kind, 'length does not match')
  }
  const numbers: number[] = []
  for (let index = 0; index < count; index += 1) {
    const value = view.getFloat64(headerSizeBytes + index * 8, true)
    if (!Number.isSafeInteger(value) || value < 0) throw invalid(kind, `value ${value}`)
    numbers.push(value)
  }
  return { numbers, text: new TextDecoder().decode(bytes.subarray(headerSizeBytes + count * 8)) }
}

function groupsOf(kind: keyof typeof magic, numbers: readonly number[], size: number): number[][] {
  if (numbers.length % size !== 1) throw invalid(kind, `${numbers.length} values`)
  const groups: number[][] = []
  for (let index = 1; index < numbers.length; index += size) {
    groups.push(numbers.slice(index, index + size))
  }
  return groups
}

export function encodeMetadata(metadata: AgentMetadata): Uint8Array {
  const ranges = metadata.regions.flatMap(({ address, lengthBytes }) => [address, lengthBytes])
  return encode('metadata', [metadata.instance, ...ranges], metadata.name)
}

/** @throws ConnectorError ERR_KV_LIMIT, ERR_KV_MESSAGE_INVALID. */
export function decodeMetadata(bytes: Uint8Array): AgentMetadata {
  const max = limits.agentMetadataSizeBytesMax
  if (bytes.length > max) {
    const details = { limit: 'agentMetadataSizeBytesMax', value: bytes.length, max }
    throw new ConnectorError('ERR_KV_LIMIT', `metadata of ${bytes.length} bytes`, details)
  }
  const { numbers, text } = decode('metadata', bytes)
  const regions = groupsOf('metadata', numbers, 2).map(([address, lengthBytes]) => {
    return { address: address!, lengthBytes: lengthBytes! }
  })
  return { instance: numbers[0]!, name: text, regions }
}

export function encodeTable(table: ExportedTable): Uint8Array {
  const numbers = table.regions.flatMap((region) => [
    region.address,
    region.blockSizeBytes,
    region.blockStrideBytes,
    region.blockCount,
  ])
  return encode('table', [table.instance, ...numbers], '')
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID when malformed, wrapping, empty or over a limit. */
export function decodeTable(bytes: Uint8Array): ExportedTable {
  const { numbers, text } = decode('table', bytes)
  const groups = groupsOf('table', numbers, 4)
  if (text !== '') throw invalid('table', 'trailing bytes')
  if (groups.length === 0 || groups.length > limits.regionCountMax) {
    throw invalid('table', `${groups.length} regions`)
  }
  const regions = groups.map(([address, blockSizeBytes, blockStrideBytes, blockCount]) => {
    const region = {
      address: address!,
      blockSizeBytes: blockSizeBytes!,
      blockStrideBytes: blockStrideBytes!,
      blockCount: blockCount!,
    }
    const isPossible =
      region.blockCount > 0 &&
      region.blockSizeBytes > 0 &&
      region.blockStrideBytes >= region.blockSizeBytes &&
      Number.isSafeInteger(region.address + placedSizeBytes(region))
    if (!isPossible) throw invalid('table', 'impossible region')
    if (region.blockCount !== groups[0]![3]) throw invalid('table', 'unequal block counts')
    return region
  })
  return { instance: numbers[0]!, regions }
}
