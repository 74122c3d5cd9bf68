/**
 * One client request from arrival to end: its abort signal, its deadlines, its moments. Whatever ends a
 * request early (client gone, a deadline, shutdown) aborts the scope with a typed reason, and everything
 * that waits for an engine hangs on this one signal. Owned by the HTTP layer; never talks to anyone.
 */
import type { Clock, Instant, Timer } from '@kvferry/connector-api'
import { deadlineReached, type Leg, type RouterError } from './router-error.ts'

export class RequestScope {
  readonly requestId: string
  readonly clock: Clock
  readonly receivedAt: Instant
  /** Legs of which an engine may have seen this request. */
  readonly reached = new Set<Leg>()
  readonly #controller = new AbortController()
  readonly #total: Timer

  constructor(options: {
    readonly requestId: string
    readonly clock: Clock
    readonly totalMs: number
  }) {
    this.requestId = options.requestId
    this.clock = options.clock
    this.receivedAt = options.clock.now()
    this.#total = this.deadline('the whole request', options.totalMs)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The first reason stays. */
  abort(reason: RouterError): void {
    if (!this.signal.aborted) this.#controller.abort(reason)
  }

  /** @throws RouterError the reason of the abort. */
  throwIfAborted(): void {
    if (this.signal.aborted) throw this.reason
  }

  get reason(): RouterError {
    return this.signal.reason as RouterError
  }

  /** Aborts the scope with a 504 unless the timer is stopped before. */
  deadline(what: string, deadlineMs: number): Timer {
    return this.clock.after(deadlineMs, () => this.abort(deadlineReached(what, deadlineMs)))
  }

  /** The same around one wait. The work itself must end when the signal aborts. */
  async within<T>(what: string, deadlineMs: number, work: () => Promise<T>): Promise<T> {
    const timer = this.deadline(what, deadlineMs)
    try {
      return await work()
    } finally {
      timer.stop()
    }
  }

  /** Once, when the request is over: nothing fires any more. */
  end(): void {
    this.#total.stop()
  }
}
