/**
 * Cuts a byte stream into frames. Pure: no socket, no time. Never holds more than one frame's bytes, takes
 * memory only as bytes arrive (an announced length costs nothing), and refuses a length before it
 * buffers for it. After it threw, the stream has no readable continuation and must be closed.
 */
import { checkFrameLength, decodeFrame, lengthSizeBytes, type Frame } from './frame.ts'

/** First allocation for a frame; most fit. It doubles as bytes arrive. */
const initialCapacityBytes = 4_096

export class FrameReader {
  /** Bytes of the frame being read, or null while its length is. */
  #frameSizeBytes: number | null = null
  #buffer = new Uint8Array(lengthSizeBytes)
  #length = 0;

  /** Frames completed by this chunk, in order. @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
  *push(chunk: Uint8Array): Generator<Frame, void, undefined> {
    let rest = chunk
    while (rest.length > 0) {
      const target = this.#frameSizeBytes ?? lengthSizeBytes
      const part = rest.subarray(0, target - this.#length)
      this.#append(part, target)
      rest = rest.subarray(part.length)
      if (this.#length < target) return
      if (this.#frameSizeBytes === null) this.#beginFrame()
      else yield decodeFrame(this.#takeFrame())
    }
  }

  #append(part: Uint8Array, target: number): void {
    const needed = this.#length + part.length
    if (needed > this.#buffer.length) {
      const grown = new Uint8Array(
        Math.min(target, Math.max(needed, 2 * this.#buffer.length, initialCapacityBytes)),
      )
      grown.set(this.#buffer.subarray(0, this.#length))
      this.#buffer = grown
    }
    this.#buffer.set(part, this.#length)
    this.#length = needed
  }

  #beginFrame(): void {
    const announced = new DataView(this.#buffer.buffer).getUint32(0)
    checkFrameLength(announced)
    this.#frameSizeBytes = announced
    this.#buffer = new Uint8Array(0)
    this.#length = 0
  }

  #takeFrame(): Uint8Array {
    const bytes = this.#buffer.subarray(0, this.#length)
    this.#frameSizeBytes = null
    this.#buffer = new Uint8Array(lengthSizeBytes)
    this.#length = 0
    return bytes
  }
}
