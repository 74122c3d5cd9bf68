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
  readonly #total: Timer | null
  readonly #unfinished: Promise<unknown>[] = []

  constructor(options: {
    readonly requestId: string
    readonly clock: Clock
    /** Null for a part of a request: the whole one's deadline ends it, too. */
    readonly totalMs: number | null
  }) {
    const { requestId, clock, totalMs } = options
    this.requestId = requestId
    this.clock = clock
    this.receivedAt = clock.now()
    this.#total = totalMs === null ? null : this.deadline('the whole request', totalMs)
  }

  /** A part that can be aborted alone: with the request it ends, too, but not the other way round. */
  branch(): RequestScope {
    const { requestId, clock } = this
    const branch = new RequestScope({ requestId, clock, totalMs: null })
    const follow = () => branch.abort(this.reason)
    if (this.signal.aborted) follow()
    else this.signal.addEventListener('abort', follow, { once: true })
    return branch
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

  /** What still runs for this request when its client has been answered, and ends by itself. */
  keepOpenFor(work: Promise<unknown>): void {
    this.#unfinished.push(work)
  }

  /** Resolves when nothing runs any more; how it ended was said where it ran. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#unfinished)
  }

  /** Once, when the request is over: nothing fires any more. */
  end(): void {
    this.#total?.stop()
  }
}
