/**
 * Messages on a byte stream: four bytes of length, little endian, then JSON. Owned by shim-link.ts, which
 * owns the socket. It bounds lengths and knows no meanings.
 */
import { ConnectorError } from '@kvferry/connector-api'
import { bridgeLimits } from './limits.ts'

const headerSizeBytes = 4

/** @throws ConnectorError ERR_KV_LIMIT for a message over the limit. */
export function encodeFrame(message: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(message))
  const max = bridgeLimits.messageSizeBytesMax
  if (body.length > max) {
    const details = { limit: 'messageSizeBytesMax', value: body.length, max }
    throw new ConnectorError('ERR_KV_LIMIT', `a message of ${body.length} bytes`, details)
  }
  const frame = Buffer.allocUnsafe(headerSizeBytes + body.length)
  frame.writeUInt32LE(body.length, 0)
  body.copy(frame, headerSizeBytes)
  return frame
}

/** Cuts a stream into messages. */
export class FrameReader {
  #chunks: Buffer[] = []
  #size = 0

  /** @throws ConnectorError ERR_KV_MESSAGE_INVALID; the stream can't be read any further then. */
  push(chunk: Buffer): unknown[] {
    this.#chunks.push(chunk)
    this.#size += chunk.length
    const messages: unknown[] = []
    for (;;) {
      const body = this.#take()
      if (body === null) return messages
      try {
        messages.push(JSON.parse(body.toString('utf8')))
      } catch (cause) {
        throw invalid(`not JSON: ${String(cause)}`)
      }
    }
  }

  #take(): Buffer | null {
    if (this.#size < headerSizeBytes) return null
    const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
    this.#chunks = [bytes]
    const size = bytes.readUInt32LE(0)
    if (size > bridgeLimits.messageSizeBytesMax) throw invalid(`a frame of ${size} bytes`)
    const end = headerSizeBytes + size
    if (this.#size < end) return null
    const rest = bytes.subarray(end)
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#size = rest.length
    return bytes.subarray(headerSizeBytes, end)
  }
}

const invalid = (reason: string): ConnectorError =>
  new ConnectorError('ERR_KV_MESSAGE_INVALID', `from the engine: ${reason}`, {
    where: 'engine',
    reason,
  })
