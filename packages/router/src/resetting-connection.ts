/**
 * A connection to a prefill engine, undici's own but for this: a call that is given up before its answer's end
 * resets it. Closed in order it would look to an engine that writes its answer in that moment as if the answer had
 * been read, and the blocks of its handoff would be kept for nobody (decision 15). Made by EngineClient's pool,
 * which has many; decides nothing about calls.
 */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { Client, type Dispatcher, type buildConnector } from 'undici'
import { RelayingHandler, type Of } from './relaying-handler.ts'

export interface ConnectionOptions extends Client.Options {
  readonly connect: buildConnector.connector
}

export function createResettingConnection(origin: URL, options: ConnectionOptions): Client {
  let socket: Socket | null = null
  const client = new Client(origin, {
    ...options,
    connect(to, callback) {
      options.connect(to, (...result) => {
        // TLS ends at a proxy, which would not pass a reset on: it is closed as it always was.
        socket = result[1] instanceof TLSSocket ? null : result[1]
        callback(...result)
      })
    },
  })
  const watched = client.compose(
    (dispatch) => (call, handler) => dispatch(call, new ResettingCall(handler, () => socket)),
  )
  client.dispatch = (call, handler) => watched.dispatch(call, handler)
  return client
}

class ResettingCall extends RelayingHandler {
  readonly #current: () => Socket | null
  /** Which it was written to, while it is open. */
  #socket: Socket | null = null
  #writtenBefore = 0

  constructor(inner: Dispatcher.DispatchHandler, current: () => Socket | null) {
    super(inner)
    this.#current = current
  }

  override onRequestStart(...of: Of<'onRequestStart'>): void {
    this.#socket = this.#current()
    this.#writtenBefore = this.#socket?.bytesWritten ?? 0
    super.onRequestStart(...of)
  }

  override onResponseEnd(...of: Of<'onResponseEnd'>): void {
    this.#socket = null
    super.onResponseEnd(...of)
  }

  /** Comes before undici closes the connection, where that isn't what went wrong. */
  override onResponseError(...of: Of<'onResponseError'>): void {
    this.#reset()
    super.onResponseError(...of)
  }

  #reset(): void {
    const socket = this.#socket
    this.#socket = null
    if (socket === null || socket.destroyed) return
    // The engine knows of no call yet: it would take the reset for that of the answer before, which was read.
    if (socket.bytesWritten === this.#writtenBefore) return
    socket.resetAndDestroy()
  }
}
