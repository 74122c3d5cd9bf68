/**
 * The closed-loop load generator: `concurrency` callers, each of which sends its next request when it has
 * the answer to the one before. Such a load has no planned moments: a slow answer delays the requests behind
 * it, so latencies count from the send and say nothing about a queue.
 */
import { sendRequest, type RequestRecord, type SendContext } from './load-client.ts'
import type { LoopResult } from './loop-result.ts'
import type { PlannedRequest } from './schedule.ts'

export interface ClosedLoopOptions {
  readonly requests: readonly PlannedRequest[]
  readonly concurrency: number
  readonly context: SendContext
  /** Called with the number of requests that have ended. */
  readonly onProgress?: (done: number) => void
}

/** @throws the abort reason of the context's signal. Failed requests are records, not exceptions. */
export async function runClosedLoop(options: ClosedLoopOptions): Promise<LoopResult> {
  const { requests, concurrency, context, onProgress } = options
  const { clock, signal } = context
  const records: RequestRecord[] = []
  const left = requests.values()
  let inFlight = 0
  let peakConcurrency = 0
  // All callers take from one iterator, so requests are sent in order.
  const call = async (): Promise<void> => {
    for (const planned of left) {
      if (signal.aborted) return
      inFlight++
      peakConcurrency = Math.max(peakConcurrency, inFlight)
      records.push(await sendRequest(planned, clock.now(), context))
      inFlight--
      onProgress?.(records.length)
    }
  }
  const startedAtMs = clock.now()
  await Promise.all(Array.from({ length: concurrency }, call))
  signal.throwIfAborted()
  records.sort((a, b) => a.planned.index - b.planned.index)
  return { records, startedAtMs, endedAtMs: clock.now(), peakConcurrency }
}
