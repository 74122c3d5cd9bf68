/**
 * What the scheduler half tells the worker half once a step: an ordered list of entries in a binary form
 * of our own. Both halves belong to one engine and one version; it is no part of WIRE_VERSION.
 */
import {
  asRequestId,
  assertNever,
  blockKeySizeBytes,
  limits,
  type BlockKeys,
  type RequestId,
} from '@kvferry/connector-api'
import {
  ByteReader,
  ByteWriter,
  EntryOutbox,
  protocolLimits,
} from '@kvferry/connector-api/protocol'
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
import type { Ticket } from './handoff.ts'
import { xavierLimits } from './limits.ts'

const metadataVersion = 2

export type MetadataEntry =
  /** A request that will have this ticket is being computed. */
  | { readonly kind: 'announce'; readonly requestId: RequestId; readonly ticket: Ticket }
  /** It ended with KV: the engine keeps these blocks until the report. */
  | {
      readonly kind: 'register'
      readonly requestId: RequestId
      /** The tokens that are handed over, and whose prompt's they are. */
      readonly prompt: PromptFacts
      readonly blockIds: Uint32Array
      /** Under which the history keeps the first of them; may be none. */
      readonly keys: BlockKeys
    }
  /** How many of these blocks in a row has the history? Reserve them. */
  | {
      readonly kind: 'ask'
      readonly requestId: RequestId
      readonly question: number
      readonly keys: BlockKeys
    }
  /** Write what was reserved into these. */
  | { readonly kind: 'restore'; readonly requestId: RequestId; readonly blockIds: Uint32Array }
  /** What was reserved isn't needed. */
  | { readonly kind: 'forget'; readonly requestId: RequestId }
  /** It ended without. */
  | { readonly kind: 'withdraw'; readonly requestId: RequestId }
  /** It ended with KV, and its handoff reached nobody. */
  | { readonly kind: 'undelivered'; readonly requestId: RequestId }
  | ConsumerWriteEntry

const kindCodes = {
  announce: 1,
  register: 2,
  withdraw: 3,
  offer: 4,
  load: 5,
  release: 6,
  abort: 7,
  ask: 8,
  restore: 9,
  forget: 10,
  undelivered: 11,
} as const satisfies Record<MetadataEntry['kind'], number>

const kinds = Object.keys(kindCodes) as MetadataEntry['kind'][]

/** Upper bound of an entry's encoded size, to cut a step's metadata at its limit. */
export function entrySizeBytes(entry: MetadataEntry): number {
  const base = entryNumbersSizeBytes + entryTextSizeBytes(entry.requestId)
  switch (entry.kind) {
    case 'announce':
      return base + entryTextSizeBytes(entry.ticket)
    case 'register':
      return base + 4 * entry.blockIds.length + entry.keys.length
    case 'ask':
      return base + entry.keys.length
    case 'restore':
      return base + 4 * entry.blockIds.length
    case 'withdraw':
    case 'undelivered':
    case 'forget':
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

/** @throws RangeError beyond the limits of one step (the outbox cuts before). */
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
      writer.string(entry.ticket)
      return
    case 'register':
      writePrompt(writer, entry.prompt)
      writer.u32List(entry.blockIds).bytes(entry.keys)
      return
    case 'ask':
      writer.u32(entry.question).bytes(entry.keys)
      return
    case 'restore':
      writer.u32List(entry.blockIds)
      return
    case 'withdraw':
    case 'undelivered':
    case 'forget':
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
  const kind = kinds.find((name) => kindCodes[name] === code)
  switch (kind) {
    case undefined:
      return reader.fail(`entry kind ${code}`)
    case 'announce':
      return { kind, requestId, ticket: reader.string(limits.idSizeBytesMax) }
    case 'register': {
      const prompt = readPrompt(reader)
      const blockIds = reader.u32List(entryBlockCountMax)
      return { kind, requestId, prompt, blockIds, keys: readKeys(reader) }
    }
    case 'ask': {
      const question = reader.u32()
      return { kind, requestId, question, keys: readKeys(reader) }
    }
    case 'restore':
      return { kind, requestId, blockIds: reader.u32List(entryBlockCountMax) }
    case 'withdraw':
    case 'undelivered':
    case 'forget':
      return { kind, requestId }
    case 'offer':
    case 'load':
    case 'release':
    case 'abort':
      return readConsumerEntry(reader, kind, requestId)
  }
}

function readKeys(reader: ByteReader): BlockKeys {
  const keys = reader.bytes(xavierLimits.entryKeyCountMax * blockKeySizeBytes)
  return keys.length % blockKeySizeBytes === 0 ? keys : reader.fail('half a key')
}

export type MetadataOutbox = EntryOutbox<MetadataEntry>

export const createOutbox = (): MetadataOutbox =>
  new EntryOutbox({
    encode: encodeMetadata,
    sizeBytesOf: entrySizeBytes,
    beginningOf: { release: 'offer', withdraw: 'announce', forget: 'ask' },
  })
