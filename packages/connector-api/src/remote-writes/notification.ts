/**
 * The one notification of remote writes: "all bytes of this registration have landed", attached to the last WRITE. It
 * travels outside the association and its sender's name can be forged, so it carries the 128-bit token that
 * the consumer gave to this producer in the handshake.
 *
 *   [token 16][wire version u8][kind u8 = 2][load id u32]
 */
import { WIRE_VERSION, limits } from '../index.ts'
import { ByteReader, ByteWriter, protocolLimits } from '../protocol/index.ts'

const writeDoneKind = 2

export interface WriteDone {
  readonly token: Uint8Array
  readonly loadId: number
}

export function encodeWriteDone({ token, loadId }: WriteDone): Uint8Array {
  return new ByteWriter(limits.notificationSizeBytesMax)
    .fixed(token)
    .u8(WIRE_VERSION)
    .u8(writeDoneKind)
    .u32(loadId)
    .finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeWriteDone(message: Uint8Array): WriteDone {
  const reader = new ByteReader(message, 'notification')
  const token = reader.fixed(protocolLimits.tokenSizeBytes)
  const version = reader.u8()
  if (version !== WIRE_VERSION) reader.fail(`wire version ${version}`)
  const kind = reader.u8()
  if (kind !== writeDoneKind) reader.fail(`kind ${kind}`)
  const loadId = reader.u32()
  reader.end()
  return { token, loadId }
}
