/** Waits for a shared promise no longer than one caller likes; the promise itself goes on. */
import { ConnectorError, type Clock } from '@kvferry/connector-api'

/** @throws ConnectorError ERR_KV_DEADLINE, or what the promise rejects with. */
export function withTimeout<T>(
  promise: Promise<T>,
  { clock, timeoutMs, what }: { clock: Clock; timeoutMs: number; what: string },
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = clock.after(timeoutMs, () => {
      const message = `no ${what} within ${timeoutMs} ms`
      reject(new ConnectorError('ERR_KV_DEADLINE', message, { what, deadlineMs: timeoutMs }))
    })
    void promise.then(resolve, reject).finally(() => timer.stop())
  })
}
