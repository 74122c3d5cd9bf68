/**
 * One configured engine: its client and what is known about it now. State changes come from the poller
 * and from calls that could not connect; the fleet reads it. Never talks to the network by itself.
 */
import type { EngineClient } from './engine-client.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { DeclaredPrefill } from './handoff.ts'
import type { Leg } from './router-error.ts'

export type EngineState =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'up'; readonly peer: EnginePeer }
  | { readonly kind: 'down'; readonly reason: string }

export class Engine {
  readonly leg: Leg
  /** Position in the configuration. */
  readonly index: number
  readonly client: EngineClient
  readonly declared: DeclaredPrefill
  #state: EngineState = { kind: 'unknown' }
  #onSuspect: () => void = () => {}
  #lastSignAt = -Infinity
  #outstandingTokens = 0

  constructor(options: {
    readonly leg: Leg
    readonly index: number
    readonly client: EngineClient
    readonly declared: DeclaredPrefill
  }) {
    this.leg = options.leg
    this.index = options.index
    this.client = options.client
    this.declared = options.declared
  }

  get url(): string {
    return this.client.url
  }

  get state(): EngineState {
    return this.#state
  }

  get peer(): EnginePeer | null {
    return this.#state.kind === 'up' ? this.#state.peer : null
  }

  setState(state: EngineState): void {
    this.#state = state
  }

  /** When it last answered a request or wrote to a stream, in the router's clock. */
  get lastSignAt(): number {
    return this.#lastSignAt
  }

  showedLife(now: number): void {
    this.#lastSignAt = now
  }

  /** Of requests that were sent to it and have not ended, as estimated. */
  get outstandingTokens(): number {
    return this.#outstandingTokens
  }

  /** Counts a request's tokens until the returned function is called; more calls change nothing. */
  takeOn(tokens: number): () => void {
    this.#outstandingTokens += tokens
    let isOver = false
    return () => {
      if (!isOver) this.#outstandingTokens -= tokens
      isOver = true
    }
  }

  /** A call could not connect: out of rotation until the poller has seen it again, which starts now. */
  suspect(reason: string): void {
    this.#state = { kind: 'down', reason }
    this.#onSuspect()
  }

  /** One listener: the engine's poller. */
  onSuspect(listener: () => void): void {
    this.#onSuspect = listener
  }
}
