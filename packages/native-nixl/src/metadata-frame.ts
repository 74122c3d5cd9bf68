/**
 * Wraps an agent's connection data in a frame with a digest, so that what is cut or garbled is refused
 * before the library sees it: NIXL keeps the part that it understood of bad metadata, and then refuses
 * good metadata of the same agent for the rest of its life. No protection against a peer that lies.
 */
import { createHash } from 'node:crypto'
import { ConnectorError, limits } from '@kvferry/connector-api'

/** "KVFM", then the version of the frame. */
const start = Buffer.from([0x4b, 0x56, 0x46, 0x4d, 1])
const digestSizeBytes = 16
const headSizeBytes = start.length + digestSizeBytes

function digestOf(blob: Uint8Array): Buffer {
  return createHash('sha256').update(blob).digest().subarray(0, digestSizeBytes)
}

export function frameMetadata(blob: Uint8Array): Uint8Array {
  return Buffer.concat([start, digestOf(blob), blob])
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID */
export function unframeMetadata(framed: Uint8Array): Uint8Array {
  if (framed.length > limits.agentMetadataSizeBytesMax) throw invalid('too long')
  if (framed.length <= headSizeBytes) throw invalid('too short')
  if (!start.equals(framed.subarray(0, start.length))) throw invalid('not agent metadata')
  const blob = framed.subarray(headSizeBytes)
  if (!digestOf(blob).equals(framed.subarray(start.length, headSizeBytes))) {
    throw invalid('cut or garbled')
  }
  return blob
}

function invalid(reason: string) {
  return new ConnectorError('ERR_KV_MESSAGE_INVALID', `agent metadata: ${reason}`, {
    where: 'addPeer',
    reason,
  })
}
