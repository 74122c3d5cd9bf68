/**
 * A peer's monotonic clock as seen from here. Each answered message that carries the peer's reading is a
 * sample; the one with the shortest round trip is kept, since its error is at most half of that. Offsets
 * decide only what is not worth trying: whether bytes may be used never depends on one.
 */
import type { Instant } from '@kvferry/connector-api'

export interface ClockSample {
  readonly sentAt: Instant
  readonly receivedAt: Instant
  /** The peer's reading, somewhere between the two. */
  readonly remoteMs: number
}

export class PeerClock {
  #offsetMs = 0
  #errorMs = Number.POSITIVE_INFINITY

  constructor(first: ClockSample) {
    this.learn(first)
  }

  learn({ sentAt, receivedAt, remoteMs }: ClockSample): void {
    const errorMs = (receivedAt - sentAt) / 2
    if (errorMs >= this.#errorMs) return
    this.#errorMs = errorMs
    this.#offsetMs = remoteMs - (sentAt + receivedAt) / 2
  }

  /** Time until the peer's clock shows `remoteMs`, at most: no real end is later. Negative when past. */
  longestUntil(remoteMs: number, now: Instant): number {
    return remoteMs - this.#offsetMs - now + this.#errorMs
  }
}
