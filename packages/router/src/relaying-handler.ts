/** Hands on whatever befalls a call, as it comes. What looks at calls on their way extends it. */
import type { Dispatcher } from 'undici'

type Handler = Dispatcher.DispatchHandler
/** What one of a handler's methods is called with. */
export type Of<Name extends keyof Handler> = Parameters<NonNullable<Handler[Name]>>

export class RelayingHandler implements Handler {
  readonly #inner: Handler

  constructor(inner: Handler) {
    this.#inner = inner
  }

  onRequestStart(...of: Of<'onRequestStart'>): void {
    this.#inner.onRequestStart?.(...of)
  }

  onResponseStart(...of: Of<'onResponseStart'>): void {
    this.#inner.onResponseStart?.(...of)
  }

  onResponseData(...of: Of<'onResponseData'>): void {
    this.#inner.onResponseData?.(...of)
  }

  onResponseEnd(...of: Of<'onResponseEnd'>): void {
    this.#inner.onResponseEnd?.(...of)
  }

  onResponseError(...of: Of<'onResponseError'>): void {
    this.#inner.onResponseError?.(...of)
  }
}
