/**
 * A load that goes on for as long as a test disturbs what serves it: a fixed number of clients, each with one
 * request at a time. What was sent is kept with its outcome, to be judged afterwards.
 */
import { complete, type CompletionRequest, type Outcome } from './completions.ts'

export interface Sent {
  readonly request: CompletionRequest
  readonly outcome: Outcome
}

export interface RunningLoad {
  /** Requests begun so far. */
  readonly sentCount: number
  /** Resolves with the beginning of request number `count`. */
  until(count: number): Promise<void>
  /** Nothing new is sent; resolves when everything sent has its outcome. */
  stop(): Promise<Sent[]>
}

/** After an error a client waits for a moment: where nobody serves, errors come at once. */
const pauseAfterErrorMs = 25

export function startLoad(options: {
  readonly url: string
  readonly clientCount: number
  readonly requestOf: (index: number) => CompletionRequest
}): RunningLoad {
  const { url, clientCount, requestOf } = options
  const sent: Sent[] = []
  let sentCount = 0
  let isStopping = false
  let waiting: { readonly count: number; readonly resolve: () => void }[] = []

  async function runClient(): Promise<void> {
    while (!isStopping) {
      const request = requestOf(sentCount++)
      for (const { count, resolve } of waiting) if (count <= sentCount) resolve()
      waiting = waiting.filter(({ count }) => count > sentCount)
      const outcome = await complete(url, request)
      sent.push({ request, outcome })
      if (outcome.kind === 'error') await new Promise((end) => setTimeout(end, pauseAfterErrorMs))
    }
  }
  const clients = Promise.all(Array.from({ length: clientCount }, runClient))
  return {
    get sentCount() {
      return sentCount
    },
    until: (count) =>
      new Promise((resolve) => {
        if (count <= sentCount) resolve()
        else waiting.push({ count, resolve })
      }),
    async stop() {
      isStopping = true
      await clients
      return sent
    },
  }
}
