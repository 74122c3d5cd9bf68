/**
 * The signal of a call whose answer is worth reading although nobody waits for the request any more: that of
 * the prefill engine, which has kept blocks for a handoff once it answers. Up to the head of the answer it is
 * the request's own; what is cut off before that the engine sees as a connection that broke.
 */
import type { Timer } from '@kvferry/connector-api'
import { deadlineReached } from './router-error.ts'
import type { RequestScope } from './request-scope.ts'

export class LastingSignal {
  readonly #scope: RequestScope
  readonly #graceMs: number
  readonly #controller = new AbortController()
  #timer: Timer | null = null
  #hasHead = false

  /** `graceMs`: what the rest of the answer gets after the request's end. */
  constructor(scope: RequestScope, graceMs: number) {
    this.#scope = scope
    this.#graceMs = graceMs
    scope.signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  headCame(): void {
    this.#hasHead = true
  }

  /** The answer was read, or will not be: no timer is left. */
  end(): void {
    this.#timer?.stop()
    this.#scope.signal.removeEventListener('abort', this.#onAbort)
  }

  readonly #onAbort = (): void => {
    if (!this.#hasHead) return this.#controller.abort(this.#scope.reason)
    const late = deadlineReached('the rest of an answer', this.#graceMs)
    this.#timer = this.#scope.clock.after(this.#graceMs, () => this.#controller.abort(late))
  }
}
