/**
 * Block-seconds that the transfer protocol costs: blocks of loads in flight, of leases and in quarantine,
 * integrated over time. Pure arithmetic; the scheduler reports each change.
 */
export class HeldBlocks {
  #count = 0
  #blockSeconds = 0
  #changedAtMs = 0

  change(delta: number, nowMs: number): void {
    this.#blockSeconds = this.totalBlockSeconds(nowMs)
    this.#changedAtMs = nowMs
    this.#count += delta
  }

  totalBlockSeconds(nowMs: number): number {
    if (this.#count === 0) return this.#blockSeconds
    return this.#blockSeconds + (this.#count * (nowMs - this.#changedAtMs)) / 1_000
  }
}
