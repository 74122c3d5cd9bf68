/**
 * The shape of a `reuse` result file; `schema/reuse.schema.json` says the same for other people's programs.
 */
import type { CompareResult, NoiseFloor, RunEntry } from '../compare/result.ts'
import type { Bar } from '../experiments/bar.ts'
import type { HistoryCounters } from '../experiments/history-counters.ts'
import type { Distribution } from '../lib/distribution.ts'
import type { Environment } from '../lib/environment.ts'
import type { WorkingSet } from './plan.ts'
import type { ReuseRole } from './runs-of.ts'

/** One cycle of all trials. */
export interface ReuseCycle {
  readonly cycle: number
  readonly immediateTtftMs: Distribution
  readonly revisitTtftMs: Distribution
  /** Of the revisits. */
  readonly prefillCallMs: Distribution
  /** Blocks that the revisits got from the history, and from how many loads. */
  readonly loads: number
  readonly hitBlocks: number
  readonly rejectedBlocks: number
}

export interface ReuseRunEntry extends RunEntry {
  readonly role: ReuseRole
  readonly blockCount: number
  readonly immediateTtftMs: Distribution
  readonly revisitTtftMs: Distribution
  /** Router's send to the prefill engine → its answer, of the revisits. */
  readonly prefillCallMs: Distribution
  readonly immediatePrefillCallMs: Distribution
  /** What the engine models for the prompt tokens that P computed at a revisit. */
  readonly modelledPrefillMs: Distribution
  /** The same and what restoring took, of each revisit. */
  readonly modelledRevisitMs: Distribution
  /** Of the revisits: P has blocks for the prefix → P's scheduler knows that it is restored. */
  readonly restoreMs: Distribution
  /** Of the revisits that had any. */
  readonly restoredTokens: Distribution
  readonly revisits: number
  /** Blocks of all revisits' prompts less their last token: what a history could give back at most. */
  readonly revisitBlocks: number
  /** Of P, over the whole life of its processes. */
  readonly history: HistoryCounters
  /** Of P, in the revisit steps alone. */
  readonly revisitHistory: HistoryCounters
  /** Counters that a history has to report and that are not there. */
  readonly missingCounters: readonly string[]
  readonly cycles: readonly ReuseCycle[]
}

export interface ReuseWorkload {
  readonly preset: string
  readonly workingSet: WorkingSet
  /** Of one trial. */
  readonly requests: number
  readonly cycles: number
  /** Before these, and in no distribution. */
  readonly settlingCycles: number
  readonly trials: number
  readonly concurrency: number
  readonly documentTokens: number
  readonly outputTokens: number
  readonly historyBlocks: number
  readonly engine: Readonly<Record<string, string | number>>
  readonly prefixCaching: 'on' | 'off'
}

export interface ReuseResult {
  readonly schema: 'kvferry.reuse/1'
  readonly agent: 'nixl' | 'memory'
  readonly environment: Environment
  readonly workload: ReuseWorkload
  readonly noiseFloor: NoiseFloor
  readonly runs: readonly ReuseRunEntry[]
  readonly bars: readonly Bar[]
  readonly verdict: CompareResult['verdict']
}
