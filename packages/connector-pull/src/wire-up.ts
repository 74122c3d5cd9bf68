/**
 * Consumers that shook hands and have not said yet that a READ of theirs succeeded. While there is one,
 * this agent is a target in wire-up and must poll, or the peer's first READ would hang. A consumer that
 * never says so is given up at a deadline. Owned by producer-worker.ts.
 */
import { limits, type Clock, type EngineId, type Timer } from '@kvferry/connector-api'

export class WireUp {
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #onChange: () => void
  readonly #waiting = new Map<EngineId, Timer>()

  constructor(clock: Clock, timeoutMs: number, onChange: () => void) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#onChange = onChange
  }

  get isPending(): boolean {
    return this.#waiting.size > 0
  }

  /** Again at every handshake of that engine. Beyond the bound the longest wait is given up. */
  start(engineId: EngineId): void {
    this.end(engineId)
    const [oldest] = this.#waiting.keys()
    if (oldest !== undefined && this.#waiting.size >= limits.peerCountMax) this.end(oldest)
    this.#waiting.set(
      engineId,
      this.#clock.after(this.#timeoutMs, () => this.end(engineId)),
    )
    this.#onChange()
  }

  /** Idempotent. */
  end(engineId: EngineId): void {
    this.#waiting.get(engineId)?.stop()
    this.#waiting.delete(engineId)
    this.#onChange()
  }

  close(): void {
    for (const timer of this.#waiting.values()) timer.stop()
    this.#waiting.clear()
    this.#onChange()
  }
}
