/**
 * Bodies of the side channel's messages. Consumer → producer: `pull.handshake`, `pull.heartbeat`,
 * `pull.renew`, `pull.release`, `pull.wired`; each is a request, since an answer is what tells the consumer that its
 * word arrived. Who the peer is comes from the association, never from a body; which of its ranks speaks is
 * in the body, for the ranks of an engine share the association. The first byte of every body is
 * WIRE_VERSION; peers of different versions refuse each other by name.
 */
import { asRequestId, limits, type RequestId } from '@kvferry/connector-api'
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
} from '@kvferry/connector-api/protocol'
import { pullLimits } from './limits.ts'

export const messageKinds = {
  handshake: 'pull.handshake',
  heartbeat: 'pull.heartbeat',
  renew: 'pull.renew',
  release: 'pull.release',
  wired: 'pull.wired',
} as const

/** What a consumer rank says of itself. */
export interface HandshakeRequest {
  readonly rank: number
  readonly facts: PeerFacts
}

/** What the producer gives to a consumer whose facts match. */
export interface HandshakeGrant {
  readonly agentName: string
  readonly agentMetadata: Uint8Array
  readonly blockTable: Uint8Array
  readonly token: Uint8Array
  /** Checks the signatures of this rank's handoffs. */
  readonly handoffKey: Uint8Array
  /** How long one renewal lasts; renewals are timed by it. */
  readonly leaseDurationMs: number
  /** The producer's clock when it answered. */
  readonly clockMs: number
  /** Its blocks are copied to host memory first: read only after the lease was granted. */
  readonly isStaged: boolean
}

/** `grant` is null when the producer found a difference; the consumer names it from the facts. */
export interface HandshakeReply {
  readonly facts: PeerFacts
  readonly grant: HandshakeGrant | null
}

/** One rank's share of one reading of one lease: the load id tells two loads of the same consumer apart. */
export interface LeaseQuestion {
  readonly rank: number
  readonly requestId: RequestId
  readonly loadId: number
}

/**
 * `granted`: held for this reader for `durationMs` from now. `completed`: this very load's read-done
 * message arrived while the lease was held. `unknown`: not held (expired, read, released, never given).
 * `claimed`: another load is reading it.
 */
export type LeaseAnswer =
  | { readonly kind: 'granted'; readonly durationMs: number }
  | { readonly kind: 'completed' }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'claimed' }

/** Answer to a heartbeat, in the order of its ids. */
export interface HeartbeatAnswer {
  /** The producer's clock when it answered. */
  readonly clockMs: number
  /** What is held is held for so long from now. */
  readonly durationMs: number
  readonly isHeld: readonly boolean[]
}

const answerCodes = { granted: 1, completed: 2, unknown: 3, claimed: 4 } as const

export function encodeHandshakeRequest({ rank, facts }: HandshakeRequest): Uint8Array {
  const writer = bodyWriter().u16(rank)
  writeFacts(writer, facts)
  return writer.finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID, ERR_KV_PEER_INCOMPATIBLE, as all decoders here. */
export function decodeHandshakeRequest(body: Uint8Array, peer: string): HandshakeRequest {
  const reader = bodyReader(body, messageKinds.handshake, peer)
  const rank = readRank(reader)
  const facts = readFacts(reader)
  reader.end()
  return { rank, facts }
}

export function encodeHandshakeReply({ facts, grant }: HandshakeReply): Uint8Array {
  const writer = bodyWriter()
  writeFacts(writer, facts)
  writer.u8(grant === null ? 0 : 1)
  if (grant === null) return writer.finish()
  return writer
    .string(grant.agentName)
    .bytes(grant.agentMetadata)
    .bytes(grant.blockTable)
    .fixed(grant.token)
    .fixed(grant.handoffKey)
    .f64(grant.leaseDurationMs)
    .f64(grant.clockMs)
    .u8(grant.isStaged ? 1 : 0)
    .finish()
}

export function decodeHandshakeReply(body: Uint8Array, peer: string): HandshakeReply {
  const reader = bodyReader(body, messageKinds.handshake, peer)
  const facts = readFacts(reader)
  const grant: HandshakeGrant | null = readFlag(reader, 'verdict')
    ? {
        agentName: reader.string(limits.idSizeBytesMax),
        agentMetadata: reader.bytes(limits.agentMetadataSizeBytesMax),
        blockTable: reader.bytes(limits.frameSizeBytesMax),
        token: reader.fixed(protocolLimits.tokenSizeBytes),
        handoffKey: reader.fixed(pullLimits.handoffKeySizeBytes),
        leaseDurationMs: reader.f64(),
        clockMs: reader.f64(),
        isStaged: readFlag(reader, 'isStaged'),
      }
    : null
  reader.end()
  return { facts, grant }
}

/** The same body asks for a renewal and gives a lease back. */
export function encodeLeaseQuestion({ rank, requestId, loadId }: LeaseQuestion): Uint8Array {
  return bodyWriter().u16(rank).string(requestId).u32(loadId).finish()
}

export function decodeLeaseQuestion(body: Uint8Array, where: string, peer: string): LeaseQuestion {
  const reader = bodyReader(body, where, peer)
  const rank = readRank(reader)
  const requestId = asRequestId(reader.string(limits.idSizeBytesMax))
  const loadId = reader.u32()
  reader.end()
  return { rank, requestId, loadId }
}

export function encodeLeaseAnswer(answer: LeaseAnswer): Uint8Array {
  const writer = bodyWriter().u8(answerCodes[answer.kind])
  if (answer.kind === 'granted') writer.f64(answer.durationMs)
  return writer.finish()
}

export function decodeLeaseAnswer(body: Uint8Array, peer: string): LeaseAnswer {
  const reader = bodyReader(body, messageKinds.renew, peer)
  const code = reader.u8()
  const answer = answerOf(code, reader)
  reader.end()
  return answer
}

function answerOf(code: number, reader: ByteReader): LeaseAnswer {
  switch (code) {
    case answerCodes.granted:
      return { kind: 'granted', durationMs: reader.f64() }
    case answerCodes.completed:
      return { kind: 'completed' }
    case answerCodes.unknown:
      return { kind: 'unknown' }
    case answerCodes.claimed:
      return { kind: 'claimed' }
    default:
      return reader.fail(`answer ${code}`)
  }
}

/** Ids are the producer's. @throws RangeError for more than fit into one (heartbeat.ts cuts them). */
export function encodeHeartbeat(ids: readonly RequestId[]): Uint8Array {
  const writer = bodyWriter().u32(ids.length)
  for (const id of ids) writer.string(id)
  return writer.finish()
}

export function decodeHeartbeat(body: Uint8Array, peer: string): RequestId[] {
  const reader = bodyReader(body, messageKinds.heartbeat, peer)
  const count = reader.count(protocolLimits.heartbeatIdCountMax)
  const ids: RequestId[] = []
  for (let index = 0; index < count; index++) {
    ids.push(asRequestId(reader.string(limits.idSizeBytesMax)))
  }
  reader.end()
  return ids
}

export function encodeHeartbeatAnswer({
  clockMs,
  durationMs,
  isHeld,
}: HeartbeatAnswer): Uint8Array {
  const writer = bodyWriter().f64(clockMs).f64(durationMs).u32(isHeld.length)
  for (const held of isHeld) writer.u8(held ? 1 : 0)
  return writer.finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID (also for another count), ERR_KV_PEER_INCOMPATIBLE. */
export function decodeHeartbeatAnswer(
  body: Uint8Array,
  idCount: number,
  peer: string,
): HeartbeatAnswer {
  const reader = bodyReader(body, messageKinds.heartbeat, peer)
  const clockMs = reader.f64()
  const durationMs = reader.f64()
  const count = reader.count(protocolLimits.heartbeatIdCountMax)
  if (count !== idCount) reader.fail(`${count} answers for ${idCount} ids`)
  const isHeld: boolean[] = []
  for (let index = 0; index < count; index++) {
    isHeld.push(readFlag(reader, 'answer'))
  }
  reader.end()
  return { clockMs, durationMs, isHeld }
}

/** A body that says all by its kind and its speaker. */
export const encodeSpeaker = (rank: number): Uint8Array => bodyWriter().u16(rank).finish()

export function decodeSpeaker(body: Uint8Array, where: string, peer: string): number {
  const reader = bodyReader(body, where, peer)
  const rank = readRank(reader)
  reader.end()
  return rank
}

/** An answer without content. */
export const encodeEmpty = (): Uint8Array => bodyWriter().finish()
