/**
 * How many of a producer rank's requests are being computed, and how many are kept for their consumers: asked
 * for in every step, so counted where they change. Owned by rendezvous-table.ts.
 */
import type { SourceRecord } from './rendezvous.ts'
import { isHeld, type SourceState } from './source-state.ts'

export class SourceCounts {
  #heldCount = 0
  #begunCount = 0

  /** Whose blocks the engine keeps for a consumer. */
  get heldCount(): number {
    return this.#heldCount
  }

  /** To which the engine has given blocks, and whose KV nobody has yet. */
  get begunCount(): number {
    return this.#begunCount
  }

  setBegun(source: SourceRecord, isBegun: boolean): void {
    this.#begunCount += Number(isBegun) - Number(source.isBegun)
    source.isBegun = isBegun
  }

  clear(): void {
    this.#heldCount = 0
    this.#begunCount = 0
  }

  setState(source: SourceRecord, state: SourceState): void {
    this.#heldCount += Number(isHeld(state)) - Number(isHeld(source.state))
    source.state = state
    // What is held waits for others.
    if (state.kind !== 'computing' && state.kind !== 'computed') this.setBegun(source, false)
  }
}
