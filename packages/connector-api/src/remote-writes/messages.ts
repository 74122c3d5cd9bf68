/**
 * Bodies of the side channel's messages. Consumer → producer: handshake, heartbeat, register, withdraw,
 * release; producer → consumer: wired, done, failed. Their kinds begin with the protocol's name
 * (`push.register`), so that peers of different protocols never take one for another. Who the peer is comes
 * from the association, never from a body; which of its ranks speaks is in the body, for the ranks of an
 * engine share the association. The first byte of every body is WIRE_VERSION; peers of different versions
 * refuse each other by name.
 */
import {
  limits,
  type ConnectorCapabilities,
  type AnyConnectorError,
  type RequestId,
  type TransferTimes,
} from '../index.ts'
import { bodyReader, bodyWriter, kindOfRank, readFlag, readRank } from '../protocol/index.ts'
import { readError, writeError } from './error-fields.ts'

export const messageKinds = {
  handshake: 'handshake',
  heartbeat: 'heartbeat',
  register: 'register',
  withdraw: 'withdraw',
  release: 'release',
  wired: 'wired',
  done: 'done',
  failed: 'failed',
} as const

/** Who speaks: the connector's name and what it can do. */
export interface WriteProtocol {
  readonly name: string
  readonly capabilities: ConnectorCapabilities
}

export type MessageKind = keyof typeof messageKinds

/** As it travels: of `protocol`, to rank `tpRank` of the engine that hears it. */
export const kindOf = (protocol: string, kind: MessageKind, tpRank: number): string =>
  kindOfRank(`${protocol}.${kind}`, tpRank)

/** The blocks of one consumer rank for one transfer. */
export interface Registration {
  readonly rank: number
  /** Of the consumer's life: names this registration in everything that follows. */
  readonly loadId: number
  readonly transferId: string
  /** The token with which the first block begins: those before it were hit locally. */
  readonly firstToken: number
  readonly tokenCount: number
  readonly promptDigest: Uint8Array
  readonly blockIds: Uint32Array
}

export interface WithdrawQuestion {
  readonly rank: number
  readonly loadId: number
  readonly transferId: string
}

/**
 * `withdrawn`: nothing of the producer writes into these blocks, or ever will. `written`: all of them are.
 * `pending`: a WRITE has no final status yet; ask again.
 */
export type WithdrawReply = 'withdrawn' | 'written' | 'pending'

/** What the producer measured of one registration's WRITEs; times of the last one, sums of the rest. */
export interface DoneNews {
  readonly loadId: number
  readonly times: TransferTimes
  /** Bytes whose WRITE had not ended when the last one began. */
  readonly lastBytes: number
  /** When the first WRITE was posted, in the producer's clock. */
  readonly postedAtMs: number
}

export interface FailedNews {
  readonly loadId: number
  readonly error: AnyConnectorError
}

const withdrawCodes = { withdrawn: 1, written: 2, pending: 3 } as const

export function encodeRegistration(registration: Registration): Uint8Array {
  const { rank, loadId, transferId, firstToken, tokenCount, promptDigest, blockIds } = registration
  return bodyWriter()
    .u16(rank)
    .u32(loadId)
    .string(transferId)
    .u32(firstToken)
    .u32(tokenCount)
    .fixed(promptDigest)
    .u32List(blockIds)
    .finish()
}

export function decodeRegistration(body: Uint8Array, peer: string): Registration {
  const reader = bodyReader(body, messageKinds.register, peer)
  const registration = {
    rank: readRank(reader),
    loadId: reader.u32(),
    transferId: reader.string(limits.idSizeBytesMax),
    firstToken: reader.u32(),
    tokenCount: reader.u32(),
    promptDigest: reader.fixed(limits.promptDigestSizeBytes),
    blockIds: reader.u32List(limits.blocksPerPostMax),
  }
  reader.end()
  return registration
}

/** Taken on, or the reason why not: then the producer has kept nothing of it. */
export function encodeRegisterReply(refusal: AnyConnectorError | null): Uint8Array {
  const writer = bodyWriter().u8(refusal === null ? 1 : 0)
  if (refusal !== null) writeError(writer, refusal)
  return writer.finish()
}

/** Why it was refused, or null. `requestId`: the consumer's own. */
export function decodeRegisterReply(
  body: Uint8Array,
  peer: string,
  requestId: RequestId,
): AnyConnectorError | null {
  const reader = bodyReader(body, messageKinds.register, peer)
  const refusal = readFlag(reader, 'answer') ? null : readError(reader, peer, requestId)
  reader.end()
  return refusal
}

export function encodeWithdraw({ rank, loadId, transferId }: WithdrawQuestion): Uint8Array {
  return bodyWriter().u16(rank).u32(loadId).string(transferId).finish()
}

export function decodeWithdraw(body: Uint8Array, peer: string): WithdrawQuestion {
  const reader = bodyReader(body, messageKinds.withdraw, peer)
  const rank = readRank(reader)
  const loadId = reader.u32()
  const transferId = reader.string(limits.idSizeBytesMax)
  reader.end()
  return { rank, loadId, transferId }
}

export const encodeWithdrawReply = (reply: WithdrawReply): Uint8Array =>
  bodyWriter().u8(withdrawCodes[reply]).finish()

export function decodeWithdrawReply(body: Uint8Array, peer: string): WithdrawReply {
  const reader = bodyReader(body, messageKinds.withdraw, peer)
  const code = reader.u8()
  const replies = Object.keys(withdrawCodes) as WithdrawReply[]
  const reply = replies.find((name) => withdrawCodes[name] === code)
  if (reply === undefined) reader.fail(`answer ${code}`)
  reader.end()
  return reply!
}

/** One consumer rank needs nothing of one transfer. */
export interface Release {
  readonly rank: number
  readonly transferId: string
}

export const encodeRelease = ({ rank, transferId }: Release): Uint8Array =>
  bodyWriter().u16(rank).string(transferId).finish()

export function decodeRelease(body: Uint8Array, peer: string): Release {
  const reader = bodyReader(body, messageKinds.release, peer)
  const rank = readRank(reader)
  const transferId = reader.string(limits.idSizeBytesMax)
  reader.end()
  return { rank, transferId }
}

export function encodeDone({ loadId, times, lastBytes, postedAtMs }: DoneNews): Uint8Array {
  return bodyWriter()
    .u32(loadId)
    .f64(postedAtMs)
    .f64(times.queuedUs)
    .f64(times.prepareUs)
    .f64(times.postUs)
    .f64(times.wireUs)
    .f64(times.bytes)
    .f64(lastBytes)
    .u32(times.descriptorsBeforeMerge)
    .u32(times.descriptorsAfterMerge)
    .finish()
}

export function decodeDone(body: Uint8Array, peer: string): DoneNews {
  const reader = bodyReader(body, messageKinds.done, peer)
  const loadId = reader.u32()
  const postedAtMs = reader.f64()
  const [queuedUs, prepareUs] = [reader.f64(), reader.f64()]
  const [postUs, wireUs] = [reader.f64(), reader.f64()]
  const [bytes, lastBytes] = [reader.f64(), reader.f64()]
  const times = {
    ...{ queuedUs, prepareUs, postUs, wireUs, bytes },
    descriptorsBeforeMerge: reader.u32(),
    descriptorsAfterMerge: reader.u32(),
  }
  reader.end()
  return { loadId, postedAtMs, lastBytes, times }
}

export function encodeFailed({ loadId, error }: FailedNews): Uint8Array {
  const writer = bodyWriter().u32(loadId)
  writeError(writer, error)
  return writer.finish()
}

export function decodeFailed(body: Uint8Array, peer: string): FailedNews {
  const reader = bodyReader(body, messageKinds.failed, peer)
  const loadId = reader.u32()
  const error = readError(reader, peer, null)
  reader.end()
  return { loadId, error }
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
