/**
 * A peer's monotonic clock as seen from here. Each answered message that carries the peer's reading is a
 * sample, wrong by half of its round trip at most when it is taken and by the clocks' drift afterwards; the
 * best one is kept. Offsets decide only what is not worth trying: whether bytes may be used never depends
 * on one.
 */
import type { Instant } from '../index.ts'
import { protocolLimits } from './limits.ts'

export interface ClockSample {
  readonly sentAt: Instant
  readonly receivedAt: Instant
  /** The peer's reading, somewhere between the two. */
  readonly remoteMs: number
}

export class PeerClock {
  #offsetMs = 0
  #errorMs = Number.POSITIVE_INFINITY
  #takenAt = 0

  constructor(first: ClockSample) {
    this.learn(first)
  }

  learn({ sentAt, receivedAt, remoteMs }: ClockSample): void {
    const errorMs = (receivedAt - sentAt) / 2
    if (errorMs >= this.#errorAt(receivedAt)) return
    this.#errorMs = errorMs
    this.#takenAt = receivedAt
    this.#offsetMs = remoteMs - (sentAt + receivedAt) / 2
  }

  /** Time until the peer's clock shows `remoteMs`, at most: no real end is later. Negative when past. */
  longestUntil(remoteMs: number, now: Instant): number {
    return remoteMs - this.#offsetMs - now + this.#errorAt(now)
  }

  #errorAt(now: Instant): number {
    return this.#errorMs + (now - this.#takenAt) * protocolLimits.clockDriftMax
  }
}
