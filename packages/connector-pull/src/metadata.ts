/**
 * What the scheduler half tells the worker half once a step: an ordered list of entries in a binary form
 * of our own. Both halves belong to one engine and one version, so bytes that do not decode are a bug
 * or a wrong deployment, not a peer's doing; the codec is strict all the same.
 *
 * Version 4 of the form: whole handoffs, with all that is signed, so that the worker can check it, and one load
 * id for all ranks. It is no part of WIRE_VERSION, since it never leaves the engine.
 */
import {
  assertNever,
  asEngineId,
  asIncarnation,
  asRequestId,
  limits,
  type BlockIds,
  type EngineId,
  type Incarnation,
  type RequestId,
} from '@kvferry/connector-api'
import { ByteReader, ByteWriter, protocolLimits } from '@kvferry/connector-api/protocol'
import { pullLimits } from './limits.ts'

const metadataVersion = 4
/** More groups than any capability allows: the worker refuses them by name, the codec only bounds. */
const groupCountMax = 64
/** More of a load's blocks than one transfer may have, for the same reason. */
const loadBlockCountMax = protocolLimits.metadataSizeBytesMax / 4

/** The producer's side of a handoff: where it is, and its own id of the request. */
export interface RemoteRequest {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
  readonly host: string
  readonly port: number
  readonly requestId: RequestId
}

/** What a producer says about blocks that it keeps, and signs. */
export interface HandoffClaims {
  readonly remote: RemoteRequest
  /** Every block of the prompt on the producer, in token order; the last one may be partial. */
  readonly blockIds: Uint32Array
  readonly tokenCount: number
  /** `digestTokens` of those tokens. */
  readonly promptDigest: Uint8Array
  /** Tokens per block of the producer. */
  readonly blockTokens: number
  readonly tpSize: number
  /** End of the lease when the handoff was written, in the producer's clock. */
  readonly leaseDeadlineMs: number
}

export interface Handoff extends HandoffClaims {
  /** One per TP rank, one after the other; see handoff-signature.ts. */
  readonly signature: Uint8Array
  /** From a decode engine, for the next turn's prefill. */
  readonly isReturn: boolean
}

export type MetadataEntry =
  /** A request whose KV may be read later is being computed: news of it from readers is plausible. */
  | { readonly kind: 'announce'; readonly requestId: RequestId }
  /** Its blocks are kept for a reader, from now for `remainingMs`. */
  | { readonly kind: 'lease'; readonly requestId: RequestId; readonly remainingMs: number }
  /** Its lease begins with the next entry: copy these blocks to host memory first. Only when staging. */
  | { readonly kind: 'stage'; readonly requestId: RequestId; readonly blockIds: Uint32Array }
  /** It ended without KV that anyone may read. */
  | { readonly kind: 'withdraw'; readonly requestId: RequestId }
  /** Its handoff reached nobody. */
  | { readonly kind: 'undelivered'; readonly requestId: RequestId }
  /** A request came with a handoff: its lease is to be kept until it is read or given up. */
  | {
      readonly kind: 'offer'
      readonly requestId: RequestId
      /** Tells its load apart from others of the same handoff, on every rank alike. */
      readonly loadId: number
      readonly handoff: Handoff
    }
  /** Read what was offered into these blocks. */
  | {
      readonly kind: 'load'
      readonly requestId: RequestId
      readonly localBlockIds: BlockIds
      /** Tokens of the offer that the blocks end with. */
      readonly tokenEnd: number
    }
  /** Nothing will be read (full local hit, or ended before allocation): the producer may free. */
  | { readonly kind: 'release'; readonly requestId: RequestId }
  /** The engine gave up a request whose load was ordered. */
  | { readonly kind: 'abort'; readonly requestId: RequestId }

const kindCodes = {
  announce: 1,
  lease: 2,
  withdraw: 3,
  load: 4,
  release: 5,
  abort: 6,
  offer: 7,
  stage: 8,
  undelivered: 9,
} as const

/** Upper bound of an entry's encoded size, to cut a step's metadata at its limit. */
export function entrySizeBytes(entry: MetadataEntry): number {
  const base = numbersSizeBytes + textSizeBytes(entry.requestId)
  switch (entry.kind) {
    case 'load':
      return entry.localBlockIds.reduce((sum, ids) => sum + 4 + 4 * ids.length, base)
    case 'offer': {
      const { remote, blockIds, signature } = entry.handoff
      const texts = [remote.engineId, remote.incarnation, remote.host, remote.requestId]
      const digests = signature.length + limits.promptDigestSizeBytes
      const fixed = base + 4 * blockIds.length + digests
      return texts.reduce((sum, text) => sum + textSizeBytes(text), fixed)
    }
    case 'stage':
      return base + 4 * entry.blockIds.length
    case 'announce':
    case 'lease':
    case 'withdraw':
    case 'undelivered':
    case 'release':
    case 'abort':
      return base
    default:
      return assertNever(entry)
  }
}

/** More than all numbers of any entry take together. */
const numbersSizeBytes = 64

/** A UTF-16 unit takes three bytes of UTF-8 at most. */
const textSizeBytes = (text: string): number => 2 + 3 * text.length

/** Most steps have no news: theirs is a copy of these bytes. */
const noNews = encodeEntries([])

/** @throws RangeError when an id or a list is longer than its limit. */
export const encodeMetadata = (entries: readonly MetadataEntry[]): Uint8Array =>
  entries.length === 0 ? noNews.slice() : encodeEntries(entries)

function encodeEntries(entries: readonly MetadataEntry[]): Uint8Array {
  const writer = new ByteWriter(protocolLimits.metadataSizeBytesMax)
  writer.u8(metadataVersion).u32(entries.length)
  for (const entry of entries) writeEntry(writer, entry)
  return writer.finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeMetadata(bytes: Uint8Array): readonly MetadataEntry[] {
  const reader = new ByteReader(bytes, 'step metadata')
  const version = reader.u8()
  if (version !== metadataVersion) reader.fail(`version ${version}`)
  const count = reader.count(protocolLimits.metadataEntryCountMax)
  const entries: MetadataEntry[] = []
  for (let index = 0; index < count; index++) entries.push(readEntry(reader))
  reader.end()
  return entries
}

function writeEntry(writer: ByteWriter, entry: MetadataEntry): void {
  writer.u8(kindCodes[entry.kind])
  switch (entry.kind) {
    case 'announce':
    case 'withdraw':
    case 'undelivered':
    case 'release':
    case 'abort':
      writer.string(entry.requestId)
      return
    case 'lease':
      writer.string(entry.requestId).f64(entry.remainingMs)
      return
    case 'stage':
      writer.string(entry.requestId).u32List(entry.blockIds)
      return
    case 'offer':
      writer.string(entry.requestId).u32(entry.loadId)
      writeHandoff(writer, entry.handoff)
      return
    case 'load':
      writer.string(entry.requestId).u32(entry.tokenEnd)
      writeBlockIds(writer, entry.localBlockIds)
      return
    default:
      assertNever(entry)
  }
}

function readEntry(reader: ByteReader): MetadataEntry {
  const code = reader.u8()
  switch (code) {
    case kindCodes.announce:
      return { kind: 'announce', requestId: readRequestId(reader) }
    case kindCodes.withdraw:
      return { kind: 'withdraw', requestId: readRequestId(reader) }
    case kindCodes.undelivered:
      return { kind: 'undelivered', requestId: readRequestId(reader) }
    case kindCodes.abort:
      return { kind: 'abort', requestId: readRequestId(reader) }
    case kindCodes.lease:
      return { kind: 'lease', requestId: readRequestId(reader), remainingMs: reader.f64() }
    case kindCodes.release:
      return { kind: 'release', requestId: readRequestId(reader) }
    case kindCodes.stage: {
      const requestId = readRequestId(reader)
      return { kind: 'stage', requestId, blockIds: reader.u32List(limits.blocksPerPostMax) }
    }
    case kindCodes.offer:
      return {
        kind: 'offer',
        requestId: readRequestId(reader),
        loadId: reader.u32(),
        handoff: readHandoff(reader),
      }
    case kindCodes.load:
      return {
        kind: 'load',
        requestId: readRequestId(reader),
        tokenEnd: reader.u32(),
        localBlockIds: readBlockIds(reader),
      }
    default:
      return reader.fail(`entry kind ${code}`)
  }
}

const readRequestId = (reader: ByteReader): RequestId =>
  asRequestId(reader.string(limits.idSizeBytesMax))

function writeHandoff(writer: ByteWriter, handoff: Handoff): void {
  writeRemote(writer, handoff.remote)
  writer.u32List(handoff.blockIds).u32(handoff.tokenCount).u32(handoff.blockTokens)
  writer.u16(handoff.tpSize).f64(handoff.leaseDeadlineMs).bytes(handoff.signature)
  writer.u8(handoff.isReturn ? 1 : 0).fixed(handoff.promptDigest)
}

function readHandoff(reader: ByteReader): Handoff {
  const remote = readRemote(reader)
  const blockIds = reader.u32List(limits.blocksPerPostMax)
  const tokenCount = reader.u32()
  const blockTokens = reader.u32()
  const tpSize = reader.u16()
  const leaseDeadlineMs = reader.f64()
  const signature = reader.bytes(protocolLimits.tpSizeMax * pullLimits.signatureSizeBytes)
  const isReturn = reader.u8() === 1
  const promptDigest = reader.fixed(limits.promptDigestSizeBytes)
  const claims = {
    remote,
    blockIds,
    tokenCount,
    promptDigest,
    blockTokens,
    tpSize,
    leaseDeadlineMs,
  }
  return { ...claims, signature, isReturn }
}

function writeRemote(writer: ByteWriter, remote: RemoteRequest): void {
  writer.string(remote.engineId).string(remote.incarnation).string(remote.host)
  writer.u16(remote.port).string(remote.requestId)
}

function readRemote(reader: ByteReader): RemoteRequest {
  const engineId = asEngineId(reader.string(limits.idSizeBytesMax))
  const incarnation = asIncarnation(reader.string(limits.idSizeBytesMax))
  const host = reader.string(protocolLimits.hostSizeBytesMax)
  const port = reader.u16()
  return { engineId, incarnation, host, port, requestId: readRequestId(reader) }
}

function writeBlockIds(writer: ByteWriter, groups: BlockIds): void {
  writer.u8(groups.length)
  for (const ids of groups) writer.u32List(ids)
}

function readBlockIds(reader: ByteReader): BlockIds {
  const groupCount = reader.u8()
  if (groupCount > groupCountMax) reader.fail(`${groupCount} groups`)
  const groups: Uint32Array[] = []
  for (let group = 0; group < groupCount; group++) {
    groups.push(reader.u32List(loadBlockCountMax))
  }
  return groups
}
