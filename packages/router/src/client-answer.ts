/**
 * Writing to one client: backpressure, a deadline for clients that stop reading, and the mark of a client
 * that is gone. Owns the raw response from the moment a completion request was accepted; called by the
 * completion handler only.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { RequestScope } from './request-scope.ts'
import { clientGone } from './router-error.ts'

export type AnswerHeaders = Readonly<Record<string, string>>

export class ClientAnswer {
  readonly #raw: ServerResponse
  readonly #scope: RequestScope
  readonly #stallMs: number

  /** `onEnd` runs once, when the last byte is out or the client is gone. */
  constructor(
    raw: ServerResponse,
    scope: RequestScope,
    options: { readonly stallMs: number; readonly onEnd: () => void },
  ) {
    this.#raw = raw
    this.#scope = scope
    this.#stallMs = options.stallMs
    // A write that crosses the client's disconnect is reported here; 'close' below says all there is to say.
    raw.on('error', () => {})
    raw.once('close', () => {
      if (!raw.writableFinished) scope.abort(clientGone())
      options.onEnd()
    })
  }

  get hasStarted(): boolean {
    return this.#raw.headersSent
  }

  start(status: number, headers: AnswerHeaders): void {
    if (!this.#raw.destroyed) this.#raw.writeHead(status, headers)
  }

  /** Resolves when more may be written. @throws RouterError the scope's reason, also when the client is gone. */
  async write(chunk: Buffer): Promise<void> {
    this.#scope.throwIfAborted()
    if (this.#raw.write(chunk)) return
    const timer = this.#breakWhenStalled()
    try {
      await once(this.#raw, 'drain', { signal: this.#scope.signal })
    } catch (error) {
      this.#scope.throwIfAborted()
      throw error
    } finally {
      timer.stop()
    }
  }

  whole(status: number, text: string, headers: AnswerHeaders): void {
    this.start(status, { ...headers, 'content-length': String(Buffer.byteLength(text)) })
    this.end(text)
  }

  /** Headers that follow the last byte; `trailer` must have named them at the start. */
  trail(headers: AnswerHeaders): void {
    this.#raw.addTrailers(headers)
  }

  /** Does not wait; a client that doesn't take the rest in time is cut off. */
  end(text: string): void {
    if (this.#raw.destroyed) return
    this.#raw.end(text)
    const timer = this.#breakWhenStalled()
    this.#raw.once('close', () => timer.stop())
  }

  #breakWhenStalled() {
    return this.#scope.clock.after(this.#stallMs, () => this.#raw.destroy())
  }
}
