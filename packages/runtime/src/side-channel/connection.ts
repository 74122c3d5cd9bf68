/**
 * One connection, plain or under TLS, that carries frames: bytes in → frames out, frames in → bounded writes. Knows no
 * protocol. Its listener changes once, from the hello exchange to the association.
 *
 * It ends in one of three ways: `leave` (last words, then wait for the peer to hang up, with a deadline),
 * `destroy`, or the peer's doing. `onClosed` comes exactly once in each, after which no event follows.
 */
import type { Socket } from 'node:net'
import { ConnectorError, type AnyConnectorError, type Clock } from '@kvferry/connector-api'
import { FrameReader } from './frame-reader.ts'
import type { Frame } from './frame.ts'
import { sideChannelLimits } from './limits.ts'

export interface ConnectionListener {
  onFrame(frame: Frame): void
  /** The stream can't be read on. The listener must end the connection. */
  onMalformed(error: AnyConnectorError): void
  /** The socket is gone. `cause` is the system's error, if it said any. */
  onClosed(cause: Error | null): void
}

type Phase = 'open' | 'leaving' | 'closed'

const endOfTurn = Promise.resolve()

export class Connection {
  readonly remoteHost: string
  /** Resolves when the socket is gone, however it ended. */
  readonly gone: Promise<void>
  readonly #socket: Socket
  readonly #clock: Clock
  readonly #reader = new FrameReader()
  #phase: Phase = 'open'
  #listener: ConnectionListener | null = null
  #error: Error | null = null
  #isGathering = false

  constructor(socket: Socket, clock: Clock) {
    this.#socket = socket
    this.#clock = clock
    this.remoteHost = socket.remoteAddress ?? ''
    socket.setNoDelay(true)
    socket.setKeepAlive(true, sideChannelLimits.keepAliveDelayMs)
    socket.on('data', (chunk: Buffer) => this.#onData(chunk))
    socket.on('error', (error) => {
      this.#error = error
    })
    this.gone = new Promise((resolve) => {
      socket.on('close', () => {
        this.#phase = 'closed'
        this.#listener?.onClosed(this.#error)
        resolve()
      })
    })
  }

  get isOpen(): boolean {
    return this.#phase === 'open'
  }

  setListener(listener: ConnectionListener): void {
    this.#listener = listener
  }

  /**
   * Takes bytes for the system, or returns why not: the peer reads too slowly, and more would grow without
   * bound. The caller then ends the connection, since a frame is missing from its order. All that is written
   * before the caller's next wait leaves together then: a step that asks for several blocks pays for one
   * system call, and its forward need not wait for it.
   */
  write(bytes: Uint8Array): AnyConnectorError | null {
    if (this.#phase !== 'open') return null
    const backlogBytes = this.#socket.writableLength + bytes.length
    const max = sideChannelLimits.writeBacklogBytesMax
    if (backlogBytes > max) {
      return new ConnectorError('ERR_KV_LIMIT', 'the peer reads its side channel too slowly', {
        limit: 'writeBacklogBytesMax',
        value: backlogBytes,
        max,
      })
    }
    this.#gather()
    this.#socket.write(bytes)
    return null
  }

  /** What was written in this turn goes now, not at the caller's next wait. */
  flush(): void {
    this.#sendGathered()
  }

  /**
   * Sends last words and ends. Input is read on and thrown away until the peer hangs up: closing a socket
   * with unread bytes makes the system reset it, and the last words may be lost.
   */
  leave(lastWords: Uint8Array): void {
    if (this.#phase !== 'open') return
    this.#phase = 'leaving'
    this.#socket.end(lastWords)
    const deadline = this.#clock.after(sideChannelLimits.farewellTimeoutMs, () => this.destroy())
    this.#socket.once('close', () => deadline.stop())
  }

  destroy(): void {
    if (this.#phase === 'open') this.#phase = 'leaving'
    this.#socket.destroy()
  }

  #gather(): void {
    if (this.#isGathering) return
    this.#isGathering = true
    this.#socket.cork()
    // Not `queueMicrotask`, which makes an async resource for each.
    void endOfTurn.then(this.#sendGathered)
  }

  readonly #sendGathered = (): void => {
    if (!this.#isGathering) return
    this.#isGathering = false
    this.#socket.uncork()
  }

  #onData(chunk: Buffer): void {
    if (this.#phase !== 'open') return
    const frames = this.#reader.push(chunk)
    while (this.#phase === 'open') {
      let next: IteratorResult<Frame, void>
      try {
        next = frames.next()
      } catch (error) {
        if (!ConnectorError.isInstance(error)) throw error
        this.#listener?.onMalformed(error)
        return
      }
      if (next.done === true) return
      this.#listener?.onFrame(next.value)
    }
  }
}
