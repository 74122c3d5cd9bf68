/** Those who wait for the moment without an open transfer, each up to its own deadline. */
import { ConnectorError } from '@kvferry/connector-api'

export class DrainWaiters {
  readonly #waiters = new Set<{ resolve(): void; reject(error: Error): void }>()

  /** @throws ConnectorError ERR_KV_DEADLINE */
  async wait(deadlineMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const ended = new Promise<void>((resolve, reject) => {
      const waiter = {
        resolve,
        reject: (error: Error) => {
          this.#waiters.delete(waiter)
          reject(error)
        },
      }
      this.#waiters.add(waiter)
      const error = new ConnectorError(
        'ERR_KV_DEADLINE',
        `transfers were still open after ${deadlineMs} ms`,
        { what: 'drain', deadlineMs },
      )
      timer = setTimeout(() => waiter.reject(error), deadlineMs)
    })
    try {
      await ended
    } finally {
      clearTimeout(timer)
    }
  }

  resolve(): void {
    for (const waiter of this.#waiters) waiter.resolve()
    this.#waiters.clear()
  }

  reject(error: Error): void {
    for (const waiter of this.#waiters) waiter.reject(error)
    this.#waiters.clear()
  }
}
