/**
 * The handshake metadata that a worker returns from `registerKvCaches` and the engine carries to the
 * scheduler half: where this engine's side channel listens. The scheduler half, which may live in
 * another process, puts it into every handoff.
 */
import { ByteReader, ByteWriter } from './bytes.ts'
import { pullLimits } from './limits.ts'

const coordinatesVersion = 1

export interface Coordinates {
  readonly host: string
  readonly port: number
}

/** @throws RangeError when the port is no 16-bit number or the host too long. */
export function encodeCoordinates({ host, port }: Coordinates): Uint8Array {
  return new ByteWriter(2 * pullLimits.hostSizeBytesMax)
    .u8(coordinatesVersion)
    .string(host)
    .u16(port)
    .finish()
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeCoordinates(bytes: Uint8Array): Coordinates {
  const reader = new ByteReader(bytes, 'handshake metadata')
  const version = reader.u8()
  if (version !== coordinatesVersion) reader.fail(`version ${version}`)
  const host = reader.string(pullLimits.hostSizeBytesMax)
  const port = reader.u16()
  reader.end()
  return { host, port }
}
