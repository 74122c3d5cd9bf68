/**
 * The shape of a `trace` result file; `schema/trace.schema.json` says the same for other people's programs,
 * and every result is validated against it before it is written.
 */
import type { HistoryCounters, HistoryPolicyName } from '@kvferry/connector-api'
import type { Environment } from '../lib/environment.ts'
import type { TraceShape } from './trace-shape.ts'

export interface TraceCapacity {
  /** Percent of the trace's different blocks. */
  readonly devicePercent: number
  readonly hostPercent: number
  /** The same in blocks. */
  readonly deviceBlocks: number
  readonly hostBlocks: number
}

export interface TraceRun {
  /** The policy. */
  readonly label: HistoryPolicyName
  readonly capacity: TraceCapacity
  /** Blocks found, as a share of all that requests named. */
  readonly hitRatio: number
  /** Of those: in the device tier. */
  readonly deviceHitRatio: number
  readonly bytesWritten: { readonly device: number; readonly host: number }
  /** Blocks written to host memory, for each block that a request named. */
  readonly hostWritesPerReference: number
  /** Blocks found for each byte written to either tier; null where nothing was written. */
  readonly hitsPerByteWritten: number | null
  readonly counters: HistoryCounters
}

export interface TraceResult {
  readonly schema: 'kvferry.trace/1'
  readonly environment: Environment
  readonly workload: TraceShape & {
    /** `file` or `synthetic`; the seed is the environment's. */
    readonly source: 'file' | 'synthetic'
    /** Name of the file without its folder; null for a synthetic trace. */
    readonly file: string | null
    readonly blockTokens: number
    readonly blockBytes: number
    /** Bound on the keys that are remembered of blocks that are not stored; null: twice both tiers' blocks. */
    readonly probationKeysMax: number | null
  }
  /** The same input gives the same output. */
  readonly noiseFloor: { readonly method: 'deterministic'; readonly spread: 0 }
  readonly runs: readonly TraceRun[]
}
