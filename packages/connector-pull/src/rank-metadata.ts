/**
 * The handshake metadata that each rank's worker returns from `registerKvCaches` and the engine carries to
 * the scheduler half: where this engine's side channel listens, and the key with which that rank's
 * consumers check handoffs. It stays inside the engine: the key must never reach a client or a router.
 */
import { ByteReader, ByteWriter, protocolLimits } from '@kvferry/connector-api/protocol'
import { pullLimits } from './limits.ts'

const rankMetadataVersion = 2

export interface RankMetadata {
  readonly host: string
  readonly port: number
  readonly handoffKey: Uint8Array
}

/** @throws RangeError when the port is no 16-bit number or the host too long. */
export function encodeRankMetadata({ host, port, handoffKey }: RankMetadata): Uint8Array {
  return new ByteWriter(2 * protocolLimits.hostSizeBytesMax)
    .u8(rankMetadataVersion)
    .string(host)
    .u16(port)
    .fixed(handoffKey)
    .finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeRankMetadata(bytes: Uint8Array): RankMetadata {
  const reader = new ByteReader(bytes, 'handshake metadata')
  const version = reader.u8()
  if (version !== rankMetadataVersion) reader.fail(`version ${version}`)
  const host = reader.string(protocolLimits.hostSizeBytesMax)
  const port = reader.u16()
  const handoffKey = reader.fixed(pullLimits.handoffKeySizeBytes)
  reader.end()
  return { host, port, handoffKey }
}
