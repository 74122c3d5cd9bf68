/**
 * The one notification of pull: "this READ has landed", attached to the READ itself. It travels outside
 * the association and its sender's name can be forged, so it carries the 128-bit token that the producer
 * gave to this consumer in the handshake.
 *
 *   [token 16][wire version u8][kind u8 = 1][load id u32][producer's request id, UTF-8, to the end]
 */
import { WIRE_VERSION, asRequestId, limits, type RequestId } from '@kvferry/connector-api'
import { ByteReader, ByteWriter, protocolLimits } from '@kvferry/connector-api/protocol'

const readDoneKind = 1

export interface ReadDone {
  readonly token: Uint8Array
  readonly loadId: number
  /** The producer's id of the request. */
  readonly requestId: RequestId
}

export function encodeReadDone({ token, loadId, requestId }: ReadDone): Uint8Array {
  return new ByteWriter(limits.notificationSizeBytesMax)
    .fixed(token)
    .u8(WIRE_VERSION)
    .u8(readDoneKind)
    .u32(loadId)
    .fixed(new TextEncoder().encode(requestId))
    .finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeReadDone(message: Uint8Array): ReadDone {
  const reader = new ByteReader(message, 'notification')
  const token = reader.fixed(protocolLimits.tokenSizeBytes)
  const version = reader.u8()
  if (version !== WIRE_VERSION) reader.fail(`wire version ${version}`)
  const kind = reader.u8()
  if (kind !== readDoneKind) reader.fail(`kind ${kind}`)
  const loadId = reader.u32()
  const requestId = asRequestId(reader.rest(limits.idSizeBytesMax))
  return { token, loadId, requestId }
}
