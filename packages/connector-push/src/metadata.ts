/**
 * What the scheduler half tells the worker half once a step: an ordered list of entries in a binary form
 * of our own. Both halves belong to one engine and one version; it is no part of WIRE_VERSION.
 */
import {
  asEngineId,
  asRequestId,
  assertNever,
  limits,
  type BlockIds,
  type RequestId,
} from '@kvferry/connector-api'
import { ByteReader, ByteWriter, protocolLimits, utf8Size } from '@kvferry/connector-api/protocol'
import type { ProducerPlace, PromptFacts } from '@kvferry/connector-api/remote-writes'

const metadataVersion = 1
/** More groups than any capability allows: the worker refuses them by name, the codec only bounds. */
const groupCountMax = 64
/** More than one transfer may have, for the same reason: as many as the metadata of a step holds. */
const blockCountMax = protocolLimits.metadataSizeBytesMax / 4

export type MetadataEntry =
  /** A request whose KV will be written to another engine is being computed. */
  | {
      readonly kind: 'announce'
      readonly requestId: RequestId
      readonly transferId: string
      readonly prompt: PromptFacts
    }
  /** The forward of this step computes its tokens up to `tokenEnd`. */
  | {
      readonly kind: 'computed'
      readonly requestId: RequestId
      readonly tokenEnd: number
      readonly isLast: boolean
      /** Blocks from the `firstBlock`-th of the request on, up to that of the last token. */
      readonly firstBlock: number
      readonly blockIds: Uint32Array
    }
  /** Its blocks get new owners with this step. */
  | { readonly kind: 'preempt'; readonly requestId: RequestId }
  /** It ended with its prompt's KV; the engine keeps its blocks until the report. */
  | { readonly kind: 'finish'; readonly requestId: RequestId }
  /** It ended without; the engine keeps its blocks until the report. */
  | { readonly kind: 'abort-source'; readonly requestId: RequestId }
  /** It ended without, and nothing of it was handed over. */
  | { readonly kind: 'withdraw'; readonly requestId: RequestId }
  /** A request came whose KV another engine will write. */
  | {
      readonly kind: 'offer'
      readonly requestId: RequestId
      readonly transferId: string
      readonly producer: ProducerPlace
      readonly prompt: PromptFacts
    }
  /** Have the prompt's tokens up to `tokenEnd` written into these blocks, which end with it. */
  | {
      readonly kind: 'load'
      readonly requestId: RequestId
      readonly localBlockIds: BlockIds
      readonly tokenEnd: number
    }
  /** Nothing is to be written (full local hit, or ended before allocation). */
  | { readonly kind: 'release'; readonly requestId: RequestId }
  /** The engine gave up a request whose load was ordered. */
  | { readonly kind: 'abort'; readonly requestId: RequestId }

const kindCodes = {
  announce: 1,
  computed: 2,
  preempt: 3,
  finish: 4,
  'abort-source': 5,
  withdraw: 6,
  offer: 7,
  load: 8,
  release: 9,
  abort: 10,
} as const satisfies Record<MetadataEntry['kind'], number>

const bareKinds = ['preempt', 'finish', 'abort-source', 'withdraw', 'release', 'abort'] as const
type BareKind = (typeof bareKinds)[number]

/** More than all numbers of any entry take together, its digest included. */
const numbersSizeBytes = 64 + limits.promptDigestSizeBytes
const textSizeBytes = (text: string): number => 2 + utf8Size(text)

/** Upper bound of an entry's encoded size, to cut a step's metadata at its limit. */
export function entrySizeBytes(entry: MetadataEntry): number {
  const base = numbersSizeBytes + textSizeBytes(entry.requestId)
  switch (entry.kind) {
    case 'announce':
      return base + textSizeBytes(entry.transferId)
    case 'computed':
      return base + 4 * entry.blockIds.length
    case 'offer': {
      const { engineId, host } = entry.producer
      return base + textSizeBytes(entry.transferId) + textSizeBytes(engineId) + textSizeBytes(host)
    }
    case 'load':
      return entry.localBlockIds.reduce((sum, ids) => sum + 4 + 4 * ids.length, base)
    case 'preempt':
    case 'finish':
    case 'abort-source':
    case 'withdraw':
    case 'release':
    case 'abort':
      return base
    default:
      return assertNever(entry)
  }
}

/** @throws RangeError beyond the limits of one step (metadata-outbox.ts cuts before). */
export function encodeMetadata(entries: readonly MetadataEntry[]): Uint8Array {
  const writer = new ByteWriter(2 * protocolLimits.metadataSizeBytesMax)
  writer.u8(metadataVersion).u32(entries.length)
  for (const entry of entries) {
    writer.u8(kindCodes[entry.kind]).string(entry.requestId)
    writeEntry(writer, entry)
  }
  return writer.finish()
}

function writeEntry(writer: ByteWriter, entry: MetadataEntry): void {
  switch (entry.kind) {
    case 'announce':
      writer.string(entry.transferId)
      return writePrompt(writer, entry.prompt)
    case 'computed':
      writer.u32(entry.tokenEnd).u8(entry.isLast ? 1 : 0)
      writer.u32(entry.firstBlock).u32List(entry.blockIds)
      return
    case 'offer': {
      const { engineId, host, port, tpSize } = entry.producer
      writer.string(entry.transferId).string(engineId).string(host).u16(port).u16(tpSize)
      return writePrompt(writer, entry.prompt)
    }
    case 'load':
      writer.u32(entry.tokenEnd).u32(entry.localBlockIds.length)
      for (const ids of entry.localBlockIds) writer.u32List(ids)
      return
    case 'preempt':
    case 'finish':
    case 'abort-source':
    case 'withdraw':
    case 'release':
    case 'abort':
      return
    default:
      assertNever(entry)
  }
}

function writePrompt(writer: ByteWriter, { tokenCount, digest }: PromptFacts): void {
  writer.u32(tokenCount).fixed(digest)
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID for bytes of another version. */
export function decodeMetadata(bytes: Uint8Array): MetadataEntry[] {
  const reader = new ByteReader(bytes, 'step metadata')
  const version = reader.u8()
  if (version !== metadataVersion) reader.fail(`version ${version}`)
  const count = reader.count(protocolLimits.metadataEntryCountMax)
  const entries: MetadataEntry[] = []
  for (let at = 0; at < count; at++) entries.push(readEntry(reader))
  reader.end()
  return entries
}

function readEntry(reader: ByteReader): MetadataEntry {
  const code = reader.u8()
  const requestId = asRequestId(reader.string(limits.idSizeBytesMax))
  switch (code) {
    case kindCodes.announce: {
      const transferId = reader.string(limits.idSizeBytesMax)
      return { kind: 'announce', requestId, transferId, prompt: readPrompt(reader) }
    }
    case kindCodes.computed: {
      const tokenEnd = reader.u32()
      const isLast = reader.u8() === 1
      const firstBlock = reader.u32()
      const blockIds = reader.u32List(blockCountMax)
      return { kind: 'computed', requestId, tokenEnd, isLast, firstBlock, blockIds }
    }
    case kindCodes.offer: {
      const transferId = reader.string(limits.idSizeBytesMax)
      const producer = readPlace(reader)
      return { kind: 'offer', requestId, transferId, producer, prompt: readPrompt(reader) }
    }
    case kindCodes.load: {
      const tokenEnd = reader.u32()
      const groupCount = reader.count(groupCountMax)
      const localBlockIds: Uint32Array[] = []
      for (let group = 0; group < groupCount; group++) {
        localBlockIds.push(reader.u32List(blockCountMax))
      }
      return { kind: 'load', requestId, localBlockIds, tokenEnd }
    }
    default: {
      const kind = bareKinds.find((name) => kindCodes[name] === code)
      return { kind: kind ?? unknownKind(reader, code), requestId }
    }
  }
}

const unknownKind = (reader: ByteReader, code: number): BareKind =>
  reader.fail(`entry kind ${code}`)

const readPlace = (reader: ByteReader): ProducerPlace => ({
  engineId: asEngineId(reader.string(limits.idSizeBytesMax)),
  host: reader.string(protocolLimits.hostSizeBytesMax),
  port: reader.u16(),
  tpSize: reader.u16(),
})

const readPrompt = (reader: ByteReader): PromptFacts => ({
  tokenCount: reader.u32(),
  digest: reader.fixed(limits.promptDigestSizeBytes),
})
