/** Bodies of the heartbeat: which transfers a consumer rank still waits for, and which the producer knows. */
import { WIRE_VERSION, limits } from '../index.ts'
import { ByteReader, bodyWriter, protocolLimits, readFlag } from '../protocol/index.ts'
import { messageKinds } from './messages.ts'

export interface Heartbeat {
  readonly rank: number
  readonly transferIds: readonly string[]
}

/** @throws RangeError for more ids than fit into one (`heartbeatPortions` cuts them). */
export function encodeHeartbeat({ rank, transferIds }: Heartbeat): Uint8Array {
  const writer = bodyWriter().u16(rank)
  writer.u32(transferIds.length)
  for (const id of transferIds) writer.string(id)
  return writer.finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeHeartbeat(body: Uint8Array): Heartbeat {
  const reader = new ByteReader(body, messageKinds.heartbeat)
  const version = reader.u8()
  if (version !== WIRE_VERSION) reader.fail(`wire version ${version}`)
  const rank = reader.u16()
  if (rank >= protocolLimits.tpSizeMax) reader.fail(`rank ${rank}`)
  const count = reader.count(protocolLimits.heartbeatIdCountMax)
  const transferIds: string[] = []
  for (let at = 0; at < count; at++) transferIds.push(reader.string(limits.idSizeBytesMax))
  reader.end()
  return { rank, transferIds }
}

/**
 * What the producer says of one transfer. `registered`: this consumer rank is. `held`: it is not, and the
 * blocks are computed and wait for it. `unknown`: neither.
 */
export type TransferStanding = 'unknown' | 'registered' | 'held'

const standingCodes: readonly TransferStanding[] = ['unknown', 'registered', 'held']

export interface HeartbeatReply {
  /** Prompts are being computed there, or written: what waits for room gets it by itself. */
  readonly isAtWork: boolean
  /** In the order of the ids. */
  readonly standings: readonly TransferStanding[]
}

export function encodeHeartbeatReply({ isAtWork, standings }: HeartbeatReply): Uint8Array {
  const writer = bodyWriter()
    .u8(isAtWork ? 1 : 0)
    .u32(standings.length)
  for (const standing of standings) writer.u8(standingCodes.indexOf(standing))
  return writer.finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID, also for another count. */
export function decodeHeartbeatReply(body: Uint8Array, idCount: number): HeartbeatReply {
  const reader = new ByteReader(body, messageKinds.heartbeat)
  const version = reader.u8()
  if (version !== WIRE_VERSION) reader.fail(`wire version ${version}`)
  const isAtWork = readFlag(reader, 'at work')
  const count = reader.count(protocolLimits.heartbeatIdCountMax)
  if (count !== idCount) reader.fail(`${count} answers for ${idCount} ids`)
  const standings: TransferStanding[] = []
  for (let at = 0; at < count; at++) {
    const code = reader.u8()
    standings.push(standingCodes[code] ?? reader.fail(`answer ${code}`))
  }
  reader.end()
  return { isAtWork, standings }
}
