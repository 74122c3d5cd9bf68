/**
 * The requests that HTTP callers wait for: bounded, each with a sink for its tokens and exactly one end.
 * Stands between the handlers and the core; the core's events come in here once a step.
 */
import type { CoreClient, CoreEvent, CoreSubmit } from '../core/core-messages.ts'
import { engineLimits } from '../limits.ts'
import { HttpError } from './http-error.ts'

export type EndEvent = Extract<CoreEvent, { kind: 'end' }>

/** One of `onEnd` and `onFailure` is called, once, and nothing afterwards. */
export interface RequestSink {
  onToken(token: number): void
  onEnd(end: EndEvent): void
  onFailure(error: HttpError): void
}

export type ServingState = 'serving' | 'ending' | 'failed'

export class OpenRequests {
  readonly #core: CoreClient
  readonly #max: number
  readonly #sinks = new Map<string, RequestSink>()
  #openReleaseCount = 0
  #state: ServingState = 'serving'

  constructor(core: CoreClient, options: { readonly max: number; onFatal(error: Error): void }) {
    this.#core = core
    this.#max = options.max
    core.setListener({
      onEvents: (events) => events.forEach((event) => this.#dispatch(event)),
      onFatal: (error) => {
        this.#fail()
        options.onFatal(error)
      },
    })
  }

  get state(): ServingState {
    return this.#state
  }

  /**
   * @throws HttpError 429 when too many are open, 503 while the engine ends or is broken, 400 for params that
   *   can't be passed on.
   */
  open(submit: CoreSubmit, sink: RequestSink): void {
    this.#refuseUnlessServing()
    const openCount = this.#sinks.size - this.#openReleaseCount
    if (openCount >= this.#max) {
      const message = `${openCount} requests are open, which is the most; try again later`
      throw new HttpError(429, 'ERR_KV_LIMIT', message)
    }
    this.#submit(submit)
    this.#sinks.set(submit.requestId, sink)
  }

  /**
   * A request that is given up before it begins. Apart from the bound of requests: an engine with too many of
   * them is where releases are needed.
   * @throws HttpError as `open`.
   */
  release(submit: CoreSubmit): void {
    this.#refuseUnlessServing()
    const max = engineLimits.openReleaseCountMax
    if (this.#openReleaseCount >= max) {
      throw new HttpError(429, 'ERR_KV_LIMIT', `${max} releases are open; try again later`)
    }
    this.#submit(submit)
    this.#core.abort(submit.requestId)
    this.#openReleaseCount++
    const end = (): void => {
      this.#openReleaseCount--
    }
    this.#sinks.set(submit.requestId, { onToken() {}, onEnd: end, onFailure: end })
  }

  /** The caller went away without its answer, which may exist by now. Later calls are harmless. */
  abandon(requestId: string): void {
    this.#sinks.delete(requestId)
    this.#core.abort(requestId)
  }

  /** No new requests from now on; open ones go on. */
  beginEnd(): void {
    if (this.#state === 'serving') this.#state = 'ending'
  }

  /** Its events come later. What is nested without end can't be copied to the core's thread. */
  #submit(submit: CoreSubmit): void {
    try {
      this.#core.submit(submit)
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause
      const message = 'kv_transfer_params: nested too deeply'
      throw new HttpError(400, 'ERR_KV_MESSAGE_INVALID', message)
    }
  }

  #refuseUnlessServing(): void {
    if (this.#state === 'serving') return
    throw new HttpError(503, 'ERR_KV_CLOSED', `the engine is ${this.#state}`)
  }

  #dispatch(event: CoreEvent): void {
    const sink = this.#sinks.get(event.requestId)
    if (sink === undefined) return
    if (event.kind === 'token') {
      sink.onToken(event.token)
      return
    }
    this.#sinks.delete(event.requestId)
    sink.onEnd(event)
  }

  #fail(): void {
    this.#state = 'failed'
    const sinks = [...this.#sinks.values()]
    this.#sinks.clear()
    for (const sink of sinks) {
      sink.onFailure(new HttpError(500, 'internal_error', 'the engine core ended unexpectedly'))
    }
  }
}
