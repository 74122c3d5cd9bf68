/**
 * The handshake metadata that the worker half returns from `registerKvCaches` and the engine carries to the
 * scheduler half: where this engine's side channel listens, which its handoffs name, whether it keeps a
 * history that can be asked, and the key of its tickets. It never leaves the engine.
 */
import { ByteReader, ByteWriter, protocolLimits } from '@kvferry/connector-api/protocol'
import { xavierLimits } from './limits.ts'

const rankMetadataVersion = 3

export interface RankMetadata {
  readonly host: string
  readonly port: number
  readonly keepsHistory: boolean
  /** `xavierLimits.ticketKeySizeBytes` random ones, of this life. */
  readonly ticketKey: Uint8Array
}

/** @throws RangeError when the port is no 16-bit number or the host too long. */
export function encodeRankMetadata(metadata: RankMetadata): Uint8Array {
  const { host, port, keepsHistory, ticketKey } = metadata
  return new ByteWriter(2 * protocolLimits.hostSizeBytesMax)
    .u8(rankMetadataVersion)
    .string(host)
    .u16(port)
    .u8(keepsHistory ? 1 : 0)
    .fixed(ticketKey)
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
  const ticketKey = reader.fixed(xavierLimits.ticketKeySizeBytes)
  reader.end()
  return { host, port, keepsHistory, ticketKey }
}
