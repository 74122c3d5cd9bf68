/** Bodies of the handshake: how a producer rank learns where it may write. */
import { limits, type ProcessIdentity } from '../index.ts'
import {
  bodyReader,
  bodyWriter,
  protocolLimits,
  readFacts,
  readFlag,
  readRank,
  writeFacts,
  type ByteReader,
  type PeerFacts,
} from '../protocol/index.ts'
import { messageKinds } from './messages.ts'

/** What the consumer says of itself, so that the producer can write into its blocks. */
export interface HandshakeRequest {
  readonly rank: number
  readonly facts: PeerFacts
  readonly agentName: string
  readonly agentMetadata: Uint8Array
  readonly blockTable: Uint8Array
  /** Comes back in every notification. */
  readonly token: Uint8Array
}

/** `grant` is null when the producer found a difference; the consumer names it from the facts. */
export interface HandshakeReply {
  readonly facts: PeerFacts
  readonly grant: {
    readonly leaseDurationMs: number
    /** Of the producer, so that its end can be seen on the same machine. */
    readonly process: ProcessIdentity | null
  } | null
}

export function encodeHandshakeRequest(request: HandshakeRequest): Uint8Array {
  const writer = bodyWriter().u16(request.rank)
  writeFacts(writer, request.facts)
  return writer
    .string(request.agentName)
    .bytes(request.agentMetadata)
    .bytes(request.blockTable)
    .fixed(request.token)
    .finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID, ERR_KV_PEER_INCOMPATIBLE, as all decoders here. */
export function decodeHandshakeRequest(body: Uint8Array, peer: string): HandshakeRequest {
  const reader = bodyReader(body, messageKinds.handshake, peer)
  const rank = readRank(reader)
  const facts = readFacts(reader)
  const agentName = reader.string(limits.idSizeBytesMax)
  const agentMetadata = reader.bytes(limits.agentMetadataSizeBytesMax)
  const blockTable = reader.bytes(limits.frameSizeBytesMax)
  const token = reader.fixed(protocolLimits.tokenSizeBytes)
  reader.end()
  return { rank, facts, agentName, agentMetadata, blockTable, token }
}

export function encodeHandshakeReply({ facts, grant }: HandshakeReply): Uint8Array {
  const writer = bodyWriter()
  writeFacts(writer, facts)
  writer.u8(grant === null ? 0 : 1)
  if (grant === null) return writer.finish()
  writer.f64(grant.leaseDurationMs).u8(grant.process === null ? 0 : 1)
  if (grant.process !== null) {
    const { machineId, pid, startTime } = grant.process
    writer.string(machineId).u32(pid).string(startTime)
  }
  return writer.finish()
}

export function decodeHandshakeReply(body: Uint8Array, peer: string): HandshakeReply {
  const reader = bodyReader(body, messageKinds.handshake, peer)
  const facts = readFacts(reader)
  const isGranted = readFlag(reader, 'verdict')
  const grant = isGranted
    ? {
        leaseDurationMs: reader.f64(),
        process: readFlag(reader, 'process') ? readProcess(reader) : null,
      }
    : null
  reader.end()
  return { facts, grant }
}

const readProcess = (reader: ByteReader): ProcessIdentity => ({
  machineId: reader.string(limits.idSizeBytesMax),
  pid: reader.u32(),
  startTime: reader.string(limits.idSizeBytesMax),
})
