/**
 * Closes parts in the reverse order of their opening, all within one deadline: what a stuck part takes is
 * missing for the others, and a part that is out of time is left behind with a word in the log, because
 * the process ends next. Never throws, and closes the rest when one part fails.
 */
import type { Clock, Logger } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'

interface ClosingPart {
  readonly what: string
  /** Of the time that is left when its turn comes. */
  readonly share: number
  close(remainingMs: number): Promise<unknown> | void
}

export class ClosingOrder {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #parts: ClosingPart[] = []

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** Opened just now: closed before everything that was opened earlier. */
  add(part: Omit<ClosingPart, 'share'> & { readonly share?: number }): void {
    this.#parts.push({ share: 1, ...part })
  }

  /** Closed after everything else, whenever it was opened. */
  addLast(part: Omit<ClosingPart, 'share'>): void {
    this.#parts.unshift({ share: 1, ...part })
  }

  /** Each part gets at least a moment, also past the deadline, or nothing would be released in order. */
  async close({ deadlineMs }: { readonly deadlineMs: number }): Promise<void> {
    const until = this.#clock.now() + deadlineMs
    for (const part of this.#parts.splice(0).reverse()) {
      const leftMs = Math.max(0, until - this.#clock.now()) * part.share
      await this.#closePart(part, Math.max(engineLimits.closeGraceMs, leftMs))
    }
  }

  async #closePart({ what, close }: ClosingPart, deadlineMs: number): Promise<void> {
    const work = Promise.resolve()
      .then(() => close(deadlineMs))
      .then(
        () => 'closed' as const,
        (error: unknown) => {
          this.#logger.warn('closing failed', { what, error: String(error) })
          return 'failed' as const
        },
      )
    let stop = (): void => {}
    const late = new Promise<'late'>((resolve) => {
      const timer = this.#clock.after(deadlineMs, () => resolve('late'))
      stop = () => timer.stop()
    })
    const outcome = await Promise.race([work, late])
    stop()
    if (outcome === 'late')
      this.#logger.warn('not closed in time, left behind', { what, deadlineMs })
  }
}
