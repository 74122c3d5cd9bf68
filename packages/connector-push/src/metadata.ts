/**
 * What the scheduler half tells the worker half once a step: an ordered list of entries in a binary form
 * of our own. Both halves belong to one engine and one version; it is no part of WIRE_VERSION.
 */
import { asRequestId, assertNever, limits, type RequestId } from '@kvferry/connector-api'
import { ByteReader, ByteWriter, protocolLimits } from '@kvferry/connector-api/protocol'
import {
  consumerEntrySizeBytes,
  entryBlockCountMax,
  entryNumbersSizeBytes,
  entryTextSizeBytes,
  readConsumerEntry,
  readPrompt,
  writeConsumerEntry,
  writePrompt,
  type ConsumerWriteEntry,
  type PromptFacts,
} from '@kvferry/connector-api/remote-writes'

const metadataVersion = 1
export type MetadataEntry =
  /** A request whose KV will be written to another engine is being computed. */
  | {
      readonly kind: 'announce'
      readonly requestId: RequestId
      readonly transferId: string
      readonly prompt: PromptFacts
    }
  /** It has blocks, and its first tokens are computed; said only where `computed` does not say it now. */
  | { readonly kind: 'begin'; readonly requestId: RequestId }
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
  /** Its answer reached nobody. */
  | { readonly kind: 'undelivered'; readonly requestId: RequestId }
  | ConsumerWriteEntry

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
  begin: 11,
  undelivered: 12,
} as const satisfies Record<MetadataEntry['kind'], number>

const bareKinds = ['begin', 'preempt', 'finish', 'abort-source', 'withdraw', 'undelivered'] as const
const consumerKinds = ['offer', 'load', 'release', 'abort'] as const
type BareKind = (typeof bareKinds)[number]

/** Upper bound of an entry's encoded size, to cut a step's metadata at its limit. */
export function entrySizeBytes(entry: MetadataEntry): number {
  const base = entryNumbersSizeBytes + entryTextSizeBytes(entry.requestId)
  switch (entry.kind) {
    case 'announce':
      return base + entryTextSizeBytes(entry.transferId)
    case 'computed':
      return base + 4 * entry.blockIds.length
    case 'begin':
    case 'preempt':
    case 'finish':
    case 'abort-source':
    case 'withdraw':
    case 'undelivered':
      return base
    case 'offer':
    case 'load':
    case 'release':
    case 'abort':
      return consumerEntrySizeBytes(entry)
    default:
      return assertNever(entry)
  }
}

/** Most steps have no news: theirs is a copy of these bytes. */
const noNews = encodeEntries([])

/** @throws RangeError beyond the limits of one step (metadata-outbox.ts cuts before). */
export const encodeMetadata = (entries: readonly MetadataEntry[]): Uint8Array =>
  entries.length === 0 ? noNews.slice() : encodeEntries(entries)

function encodeEntries(entries: readonly MetadataEntry[]): Uint8Array {
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
    case 'begin':
    case 'preempt':
    case 'finish':
    case 'abort-source':
    case 'withdraw':
    case 'undelivered':
      return
    case 'offer':
    case 'load':
    case 'release':
    case 'abort':
      return writeConsumerEntry(writer, entry)
    default:
      assertNever(entry)
  }
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID for bytes of another version. */
export function decodeMetadata(bytes: Uint8Array): readonly MetadataEntry[] {
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
      const blockIds = reader.u32List(entryBlockCountMax)
      return { kind: 'computed', requestId, tokenEnd, isLast, firstBlock, blockIds }
    }
    default: {
      const consumed = consumerKinds.find((name) => kindCodes[name] === code)
      if (consumed !== undefined) return readConsumerEntry(reader, consumed, requestId)
      const kind = bareKinds.find((name) => kindCodes[name] === code)
      return { kind: kind ?? unknownKind(reader, code), requestId }
    }
  }
}

const unknownKind = (reader: ByteReader, code: number): BareKind =>
  reader.fail(`entry kind ${code}`)
