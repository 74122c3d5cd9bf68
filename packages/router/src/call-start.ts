/**
 * Tells the moment before a call is written to its connection: from then on its engine may see it, and not
 * before, however long it waits for a connection. Everything else goes through as it comes.
 */
import type { Dispatcher } from 'undici'
import { RelayingHandler, type Of } from './relaying-handler.ts'

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

class StartTeller extends RelayingHandler {
  readonly #start: () => void

  constructor(inner: Dispatcher.DispatchHandler, start: () => void) {
    super(inner)
    this.#start = start
  }

  override onRequestStart(...of: Of<'onRequestStart'>): void {
    this.#start()
    super.onRequestStart(...of)
  }
}
