/**
 * Which producers are not called again yet, because a handshake with them failed a moment ago: loads meet
 * the known error at once instead of waiting for it. The pause doubles with each failure in a row. Keys are
 * the caller's.
 */
import {
  instantPlus,
  limits,
  type AnyConnectorError,
  type Clock,
  type Instant,
  type Random,
} from '../index.ts'
import { protocolLimits } from './limits.ts'

interface Failure {
  readonly count: number
  readonly retryAt: Instant
  readonly error: AnyConnectorError
}

/** The pause after the `count`-th failure in a row; `uniform` (0 … 1) keeps consumers from calling in step. */
export function backOffMs(count: number, uniform: number): number {
  const { handshakeBackOffMinMs, handshakeBackOffMaxMs } = protocolLimits
  const pauseMs = Math.min(handshakeBackOffMaxMs, handshakeBackOffMinMs * 2 ** (count - 1))
  return pauseMs * (0.5 + uniform / 2)
}

export class HandshakeBackOff {
  readonly #clock: Clock
  readonly #random: Random
  /** In order of the last failure, so that the bound forgets the oldest. */
  readonly #failures = new Map<string, Failure>()

  constructor(clock: Clock, random: Random) {
    this.#clock = clock
    this.#random = random
  }

  /** Why `key` is not called now, or null. */
  errorOf(key: string): AnyConnectorError | null {
    const failure = this.#failures.get(key)
    return failure !== undefined && this.#clock.now() < failure.retryAt ? failure.error : null
  }

  fail(key: string, error: AnyConnectorError): void {
    const count = (this.#failures.get(key)?.count ?? 0) + 1
    this.#failures.delete(key)
    const [oldest] = this.#failures.keys()
    if (oldest !== undefined && this.#failures.size >= limits.peerCountMax) {
      this.#failures.delete(oldest)
    }
    const pauseMs = backOffMs(count, this.#random.uniform())
    this.#failures.set(key, { count, retryAt: instantPlus(this.#clock.now(), pauseMs), error })
  }

  succeed(key: string): void {
    this.#failures.delete(key)
  }
}
