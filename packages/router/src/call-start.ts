/**
 * Tells the moment before a call is written to its connection: from then on its engine may see it, and not
 * before, however long it waits for a connection. Everything else goes through as it comes.
 */
import type { Dispatcher } from 'undici'

type Handler = Dispatcher.DispatchHandler
type Of<Name extends keyof Handler> = Parameters<NonNullable<Handler[Name]>>

/** `signal`: of the call; one that is aborted while it waits is never written. */
export const tellStart =
  (signal: AbortSignal, onStart: () => void): Dispatcher.DispatcherComposeInterceptor =>
  (dispatch) =>
  (options, handler) => {
    const start = (): void => {
      if (!signal.aborted) onStart()
    }
    return dispatch(options, new StartTeller(handler, start))
  }

class StartTeller implements Handler {
  readonly #handler: Handler
  readonly #start: () => void

  constructor(handler: Handler, start: () => void) {
    this.#handler = handler
    this.#start = start
  }

  onRequestStart(...of: Of<'onRequestStart'>): void {
    this.#start()
    this.#handler.onRequestStart?.(...of)
  }

  onResponseStart(...of: Of<'onResponseStart'>): void {
    this.#handler.onResponseStart?.(...of)
  }

  onResponseData(...of: Of<'onResponseData'>): void {
    this.#handler.onResponseData?.(...of)
  }

  onResponseEnd(...of: Of<'onResponseEnd'>): void {
    this.#handler.onResponseEnd?.(...of)
  }

  onResponseError(...of: Of<'onResponseError'>): void {
    this.#handler.onResponseError?.(...of)
  }
}
