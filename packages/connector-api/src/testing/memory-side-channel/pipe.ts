/**
 * One direction of an association: messages arrive in order, each after a delay, or not at all once the
 * pipe is cut. While it is blocked (a partition, a stopped process) they wait, as bytes do in TCP.
 */
import type { Clock, Timer } from '../../clock.ts'
import { instantPlus } from '../../clock.ts'
import type { Instant } from '../../clock.ts'

/** Messages that wait in one direction; the sender's association ends beyond it. */
export const pipeMessageCountMax = 16_384

interface Parcel {
  /** Not before; what was sent earlier goes first in any case. */
  readonly dueAt: Instant
  readonly deliver: () => void
}

export class Pipe {
  readonly #clock: Clock
  readonly #delayMs: () => number
  readonly #isBlocked: () => boolean
  #parcels: Parcel[] = []
  #timer: Timer | null = null

  constructor(options: { clock: Clock; delayMs: () => number; isBlocked: () => boolean }) {
    this.#clock = options.clock
    this.#delayMs = options.delayMs
    this.#isBlocked = options.isBlocked
  }

  /** False when too much waits already. */
  push(deliver: () => void): boolean {
    if (this.#parcels.length >= pipeMessageCountMax) return false
    const dueAt = instantPlus(this.#clock.now(), this.#delayMs())
    this.#parcels.push({ dueAt, deliver })
    this.resume()
    return true
  }

  /** Looks again whether messages may pass. */
  resume(): void {
    const first = this.#parcels[0]
    if (this.#timer !== null || first === undefined || this.#isBlocked()) return
    const delayMs = Math.max(0, first.dueAt - this.#clock.now())
    this.#timer = this.#clock.after(delayMs, () => {
      this.#timer = null
      if (this.#isBlocked()) return
      this.#parcels.shift()?.deliver()
      this.resume()
    })
  }

  /** Everything in it is lost. */
  cut(): void {
    this.#parcels = []
    this.#timer?.stop()
    this.#timer = null
  }
}
