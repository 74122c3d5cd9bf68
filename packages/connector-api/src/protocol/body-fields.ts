/** What the bodies of side-channel messages begin with, and fields that several have. */
import { ConnectorError, WIRE_VERSION, limits } from '../index.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import { protocolLimits } from './limits.ts'

/** A body whose first byte is WIRE_VERSION. */
export const bodyWriter = (): ByteWriter =>
  new ByteWriter(limits.frameSizeBytesMax).u8(WIRE_VERSION)

/** @throws ConnectorError ERR_KV_PEER_INCOMPATIBLE when `peer` speaks another version. */
export function bodyReader(body: Uint8Array, where: string, peer: string): ByteReader {
  const reader = new ByteReader(body, where)
  const version = reader.u8()
  if (version !== WIRE_VERSION) {
    throw new ConnectorError(
      'ERR_KV_PEER_INCOMPATIBLE',
      `${peer} speaks wire version ${version}, this engine ${WIRE_VERSION}`,
      { peer, field: 'wireVersion', local: String(WIRE_VERSION), remote: String(version) },
    )
  }
  return reader
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function readRank(reader: ByteReader): number {
  const rank = reader.u16()
  if (rank >= protocolLimits.tpSizeMax) reader.fail(`rank ${rank}`)
  return rank
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function readFlag(reader: ByteReader, name: string): boolean {
  const value = reader.u8()
  if (value > 1) reader.fail(`${name} ${value}`)
  return value === 1
}
