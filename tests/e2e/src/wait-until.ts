/** Polls a condition that only another process can make true; the one wait of these tests without an event. */
const pollIntervalMs = 20

/**
 * The deadline only ends what hangs; a busy machine takes its time.
 * @throws Error naming `what` when the condition isn't true in time. Errors of `condition` count as "not yet".
 */
export async function waitUntil(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  let last: unknown = 'false'
  while (performance.now() < deadline) {
    try {
      if (await condition()) return
      last = 'false'
    } catch (error) {
      last = error
    }
    await new Promise((resolve) => setTimeout(resolve, pollIntervalMs))
  }
  throw new Error(`not in ${timeoutMs} ms: ${what} (last: ${String(last)})`)
}
