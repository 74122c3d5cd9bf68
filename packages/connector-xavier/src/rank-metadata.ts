/**
 * The handshake metadata that the worker half returns from `registerKvCaches` and the engine carries to the
 * scheduler half: where this engine's side channel listens, which its handoffs name, and whether it keeps a
 * history that can be asked.
 */
import { ByteReader, ByteWriter, protocolLimits } from '@kvferry/connector-api/protocol'

const rankMetadataVersion = 2

export interface RankMetadata {
  readonly host: string
  readonly port: number
  readonly keepsHistory: boolean
}

/** @throws RangeError when the port is no 16-bit number or the host too long. */
export function encodeRankMetadata({ host, port, keepsHistory }: RankMetadata): Uint8Array {
  return new ByteWriter(2 * protocolLimits.hostSizeBytesMax)
    .u8(rankMetadataVersion)
    .string(host)
    .u16(port)
    .u8(keepsHistory ? 1 : 0)
    .finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeRankMetadata(bytes: Uint8Array): RankMetadata {
  const reader = new ByteReader(bytes, 'handshake metadata')
  const version = reader.u8()
  if (version !== rankMetadataVersion) reader.fail(`version ${version}`)
  const host = reader.string(protocolLimits.hostSizeBytesMax)
  const port = reader.u16()
  const keepsHistory = reader.u8() === 1
  reader.end()
  return { host, port, keepsHistory }
}
