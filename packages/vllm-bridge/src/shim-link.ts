/**
 * The host's end of the socket to the shim: whole messages in, whole messages out, and the news that the
 * engine is gone. Owns the socket and nothing else; never decides what a message means.
 */
import { Socket } from 'node:net'
import { encodeFrame, FrameReader } from './frames.ts'
import { bridgeLimits } from './limits.ts'
import { parseShimMessage, type HostMessage, type ShimMessage } from './messages.ts'

export interface ShimLinkListener {
  onMessage(message: ShimMessage): void
  /** Once. `error` is null when the engine closed its end, as it does to end the host. */
  onEnd(error: Error | null): void
}

export class ShimLink {
  readonly #socket: Socket
  readonly #reader = new FrameReader()
  readonly #listener: ShimLinkListener
  #isEnded = false

  constructor(socket: Socket, listener: ShimLinkListener) {
    this.#socket = socket
    this.#listener = listener
    socket.on('data', (chunk: Buffer) => this.#onData(chunk))
    socket.on('error', (error) => this.#end(error))
    socket.on('end', () => this.#end(null))
    socket.on('close', () => this.#end(null))
  }

  static ofDescriptor(fd: number, listener: ShimLinkListener): ShimLink {
    return new ShimLink(new Socket({ fd, readable: true, writable: true }), listener)
  }

  /** Grows with every byte that was read from the engine. */
  get receivedBytes(): number {
    return this.#socket.bytesRead
  }

  /** Ordered. Dropped when the engine is gone. */
  send(message: HostMessage): void {
    if (this.#isEnded) return
    this.#socket.write(encodeFrame(message))
    if (this.#socket.writableLength > bridgeLimits.backlogSizeBytesMax) {
      this.#end(new Error(`the engine left ${this.#socket.writableLength} bytes unread`))
    }
  }

  /** Ends the connection after what was sent. */
  close(): void {
    this.#isEnded = true
    this.#socket.end()
    this.#socket.destroySoon()
  }

  #onData(chunk: Buffer): void {
    if (this.#isEnded) return
    try {
      for (const body of this.#reader.push(chunk)) this.#listener.onMessage(parseShimMessage(body))
    } catch (error) {
      this.#end(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #end(error: Error | null): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#socket.destroy()
    this.#listener.onEnd(error)
  }
}
