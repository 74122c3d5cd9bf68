/** What a load generator, open or closed, has to say about the requests that it sent. */
import type { RequestRecord } from './load-client.ts'

export interface LoopResult {
  /** In the order of the plan. */
  readonly records: readonly RequestRecord[]
  readonly startedAtMs: number
  readonly endedAtMs: number
  /** Most requests in flight at once. */
  readonly peakConcurrency: number
}

export const loopSeconds = ({ startedAtMs, endedAtMs }: LoopResult): number =>
  (endedAtMs - startedAtMs) / 1_000
