/**
 * The shape of a `load` result file; `schema/load.schema.json` says the same for other people's programs.
 */
import type { BreakdownPart } from '../compare/request-metrics.ts'
import type { CompareResult, NoiseFloor, RunEntry } from '../compare/result.ts'
import type { Bar } from '../experiments/bar.ts'
import type { HistoryCounters } from '../experiments/history-counters.ts'
import type { Distribution } from '../lib/distribution.ts'
import type { Environment } from '../lib/environment.ts'
import type { LoadStep } from './plan.ts'
import type { LoadRole } from './runs-of.ts'

/** One phase of all trials. */
export interface LoadPhase {
  readonly requests: number
  readonly failed: number
  /** Callers; null where requests come at planned moments. */
  readonly concurrency: number | null
  /** Tokens of all trials over the time of all trials. */
  readonly outputTokensPerS: number
  readonly outputTokensPerSByTrial: readonly number[]
  readonly ttftMs: Distribution
  readonly tpotMs: Distribution
  readonly e2elMs: Distribution
}

export interface LoadRunEntry extends RunEntry {
  readonly role: LoadRole
  readonly phases: Readonly<Record<LoadStep, LoadPhase>>
  /** From the planned moment. */
  readonly coldArrivalTtftMs: Distribution
  /** From P's end to the KV on D, without the times at which D's next step is waited for. */
  readonly coldPathMs: Distribution
  readonly coldBreakdown: Readonly<Record<BreakdownPart, Distribution>>
  readonly coldArrivals: number
  /** Cold arrivals that were sent, and got their first token, while a background request decoded. */
  readonly coldDuringDecode: number
  /** Of the background requests: what the arrivals cost those that decode. */
  readonly backgroundTpotMs: Distribution
  /** Of P, over the whole life of its processes. */
  readonly history: HistoryCounters
  readonly missingCounters: readonly string[]
}

export interface LoadWorkload {
  readonly preset: string
  /** Of one trial. */
  readonly requests: number
  readonly trials: number
  readonly plan: Readonly<Record<string, number>>
  readonly engine: Readonly<Record<string, string | number>>
  readonly prefixCaching: 'on' | 'off'
}

export interface LoadResult {
  readonly schema: 'kvferry.load/1'
  readonly agent: 'nixl' | 'memory'
  readonly environment: Environment
  readonly workload: LoadWorkload
  readonly noiseFloor: NoiseFloor
  readonly runs: readonly LoadRunEntry[]
  readonly bars: readonly Bar[]
  readonly verdict: CompareResult['verdict']
}
