/**
 * The other end of a side channel as an attacker or a broken engine would write it: a bare socket that
 * sends any bytes and shows the frames it got.
 */
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { encode } from '@msgpack/msgpack'
import { WIRE_VERSION } from '@kvferry/connector-api'
import { FrameReader } from '../../src/side-channel/frame-reader.ts'
import { encodeFrame, type Frame, type FrameType } from '../../src/side-channel/frame.ts'

export class RawPeer {
  readonly socket: Socket
  readonly frames: Frame[] = []
  /** Resolves when the connection has ended, whoever ended it. */
  readonly closed: Promise<void>
  readonly #reader = new FrameReader()
  #waiting: (() => void)[] = []

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      this.frames.push(...this.#reader.push(chunk))
      for (const resolve of this.#waiting.splice(0)) resolve()
    })
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()))
  }

  static async connect(port: number): Promise<RawPeer> {
    const socket = connect({ host: '127.0.0.1', port })
    await once(socket, 'connect')
    return new RawPeer(socket)
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes)
  }

  frame(type: FrameType, frame: Partial<Omit<Frame, 'type'>> = {}): void {
    this.write(encodeFrame(type, frame))
  }

  hello(fields: Record<string, unknown> = {}): void {
    const hello = { wireVersion: WIRE_VERSION, engineId: 'raw', incarnation: 'raw-1', ...fields }
    this.frame('hello', { body: encode(hello) })
  }

  /** The next frame that wasn't taken yet. Rejects when the connection ends without one. */
  async take(): Promise<Frame> {
    while (this.frames.length === 0) {
      const more = new Promise<'more'>((resolve) => this.#waiting.push(() => resolve('more')))
      const end = this.closed.then(() => 'closed' as const)
      if ((await Promise.race([more, end])) === 'closed' && this.frames.length === 0) {
        throw new Error('the connection ended without a further frame')
      }
    }
    return this.frames.shift() as Frame
  }

  destroy(): void {
    this.socket.destroy()
  }
}
