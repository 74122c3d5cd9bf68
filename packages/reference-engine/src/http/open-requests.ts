/**
 * The requests that HTTP callers wait for: bounded, each with a sink for its tokens and exactly one end.
 * Stands between the handlers and the core; the core's events come in here once a step.
 */
import type { CoreClient, CoreEvent, CoreSubmit } from '../core/core-messages.ts'
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

  /** @throws HttpError 429 when too many are open, 503 while the engine ends or is broken. */
  open(submit: CoreSubmit, sink: RequestSink): void {
    if (this.#state !== 'serving') {
      throw new HttpError(503, 'ERR_KV_CLOSED', `the engine is ${this.#state}`)
    }
    if (this.#sinks.size >= this.#max) {
      const message = `${this.#sinks.size} requests are open, which is the most; try again later`
      throw new HttpError(429, 'ERR_KV_LIMIT', message)
    }
    this.#sinks.set(submit.requestId, sink)
    this.#core.submit(submit)
  }

  /** The caller went away. Late calls are harmless. */
  abandon(requestId: string): void {
    if (this.#sinks.delete(requestId)) this.#core.abort(requestId)
  }

  /** No new requests from now on; open ones go on. */
  beginEnd(): void {
    if (this.#state === 'serving') this.#state = 'ending'
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
