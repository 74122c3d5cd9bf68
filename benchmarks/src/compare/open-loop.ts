/**
 * The open-loop load generator: every request is due at its planned moment whatever became of the ones
 * before it. When the concurrency bound is reached, due requests wait in a client queue; latencies count
 * from the planned moment all the same, and the wait is reported apart.
 */
import type { Clock } from '@kvferry/connector-api'
import { limits } from '../limits.ts'
import { noReply, sendRequest, type RequestRecord, type SendContext } from './load-client.ts'
import type { LoopResult } from './loop-result.ts'
import type { PlannedRequest } from './schedule.ts'

export interface OpenLoopOptions {
  readonly requests: readonly PlannedRequest[]
  readonly concurrencyMax: number
  readonly context: SendContext
  /** Called with the number of requests that have ended. */
  readonly onProgress?: (done: number) => void
}

function delay(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error)
    const onAbort = (): void => {
      timer.stop()
      reject(signal.reason as Error)
    }
    const timer = clock.after(delayMs, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
    signal.addEventListener('abort', onAbort, { once: true })
  })
}

function droppedRecord(planned: PlannedRequest, scheduledAtMs: number): RequestRecord {
  return {
    planned,
    scheduledAtMs,
    sentAtMs: null,
    ...noReply,
    error: `dropped: waited over ${limits.clientQueueMsMax} ms for a free place in the client`,
  }
}

/** @throws the abort reason of the context's signal. Failed requests are records, not exceptions. */
export async function runOpenLoop(options: OpenLoopOptions): Promise<LoopResult> {
  const { requests, concurrencyMax, context, onProgress } = options
  const { clock, signal } = context
  const records: RequestRecord[] = []
  const waiting: (() => void)[] = []
  let inFlight = 0
  let peakConcurrency = 0

  const enter = async (): Promise<void> => {
    if (inFlight >= concurrencyMax) await new Promise<void>((resolve) => waiting.push(resolve))
    else inFlight++
    peakConcurrency = Math.max(peakConcurrency, inFlight)
  }
  /** The place goes to the oldest waiting request at once, so order is kept. */
  const leave = (): void => {
    const next = waiting.shift()
    if (next) next()
    else inFlight--
  }
  const runOne = async (planned: PlannedRequest, scheduledAtMs: number): Promise<void> => {
    await enter()
    try {
      records.push(
        clock.now() - scheduledAtMs > limits.clientQueueMsMax
          ? droppedRecord(planned, scheduledAtMs)
          : await sendRequest(planned, scheduledAtMs, context),
      )
    } finally {
      leave()
    }
    onProgress?.(records.length)
  }

  const startedAtMs = clock.now()
  const running: Promise<void>[] = []
  try {
    for (const planned of requests) {
      const dueAtMs = startedAtMs + planned.atMs
      const aheadMs = dueAtMs - clock.now()
      if (aheadMs > 0) await delay(clock, aheadMs, signal)
      running.push(runOne(planned, dueAtMs))
    }
  } finally {
    await Promise.all(running)
  }
  signal.throwIfAborted()
  records.sort((a, b) => a.planned.index - b.planned.index)
  return { records, startedAtMs, endedAtMs: clock.now(), peakConcurrency }
}
