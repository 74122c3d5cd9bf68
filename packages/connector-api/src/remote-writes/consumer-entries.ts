/**
 * What a consumer's scheduler half tells its worker half of a request, and its binary form. Part of each
 * protocol's step metadata, which belongs to one engine and one version: no part of WIRE_VERSION.
 */
import { asEngineId, assertNever, limits, type BlockIds, type RequestId } from '../index.ts'
import { protocolLimits, utf8Size, type ByteReader, type ByteWriter } from '../protocol/index.ts'
import type { Offer, PromptFacts, ProducerPlace } from './offer.ts'

/** More groups than any capability allows: the worker refuses them by name, the codec only bounds. */
const groupCountMax = 64
/** More than one transfer may have, for the same reason: as many as the metadata of a step holds. */
export const entryBlockCountMax = protocolLimits.metadataSizeBytesMax / 4

export type ConsumerWriteEntry =
  /** A request came whose KV another engine will write. */
  | ({ readonly kind: 'offer' } & Offer)
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

/** More than all numbers of any entry take together, its digest included. */
export const entryNumbersSizeBytes = 64 + limits.promptDigestSizeBytes
export const entryTextSizeBytes = (text: string): number => 2 + utf8Size(text)

/** Upper bound of an entry's encoded size, to cut a step's metadata at its limit. */
export function consumerEntrySizeBytes(entry: ConsumerWriteEntry): number {
  const base = entryNumbersSizeBytes + entryTextSizeBytes(entry.requestId)
  switch (entry.kind) {
    case 'offer': {
      const { engineId, host } = entry.producer
      const texts = [entry.transferId, engineId, host]
      return texts.reduce((sum, text) => sum + entryTextSizeBytes(text), base)
    }
    case 'load':
      return entry.localBlockIds.reduce((sum, ids) => sum + 4 + 4 * ids.length, base)
    case 'release':
    case 'abort':
      return base
    default:
      return assertNever(entry)
  }
}

/** What follows an entry's kind and request. */
export function writeConsumerEntry(writer: ByteWriter, entry: ConsumerWriteEntry): void {
  switch (entry.kind) {
    case 'offer': {
      const { engineId, host, port, tpSize } = entry.producer
      writer.string(entry.transferId).string(engineId).string(host).u16(port).u16(tpSize)
      return writePrompt(writer, entry.prompt)
    }
    case 'load':
      writer.u32(entry.tokenEnd).u32(entry.localBlockIds.length)
      for (const ids of entry.localBlockIds) writer.u32List(ids)
      return
    case 'release':
    case 'abort':
      return
    default:
      assertNever(entry)
  }
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function readConsumerEntry(
  reader: ByteReader,
  kind: ConsumerWriteEntry['kind'],
  requestId: RequestId,
): ConsumerWriteEntry {
  switch (kind) {
    case 'offer': {
      const transferId = reader.string(limits.idSizeBytesMax)
      const producer = readPlace(reader)
      return { kind, requestId, transferId, producer, prompt: readPrompt(reader) }
    }
    case 'load': {
      const tokenEnd = reader.u32()
      const groupCount = reader.count(groupCountMax)
      const localBlockIds: Uint32Array[] = []
      for (let group = 0; group < groupCount; group++) {
        localBlockIds.push(reader.u32List(entryBlockCountMax))
      }
      return { kind, requestId, localBlockIds, tokenEnd }
    }
    case 'release':
    case 'abort':
      return { kind, requestId }
    default:
      return assertNever(kind)
  }
}

export function writePrompt(writer: ByteWriter, { tokenCount, digest }: PromptFacts): void {
  writer.u32(tokenCount).fixed(digest)
}

export const readPrompt = (reader: ByteReader): PromptFacts => ({
  tokenCount: reader.u32(),
  digest: reader.fixed(limits.promptDigestSizeBytes),
})

const readPlace = (reader: ByteReader): ProducerPlace => ({
  engineId: asEngineId(reader.string(limits.idSizeBytesMax)),
  host: reader.string(protocolLimits.hostSizeBytesMax),
  port: reader.u16(),
  tpSize: reader.u16(),
})
