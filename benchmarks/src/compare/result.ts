/**
 * The shape of a `compare` result file; `schema/compare.schema.json` says the same for other people's
 * programs, and every result is validated against it before it is written.
 */
import type { Bar } from '../experiments/bar.ts'
import type { Distribution } from '../lib/distribution.ts'
import type { Environment } from '../lib/environment.ts'
import type { BreakdownPart } from './request-metrics.ts'

/** The oracle's only engine counts as the consumer; values that an engine can't know are null. */
export interface PerSide<T> {
  readonly producer: T | null
  readonly consumer: T | null
}

export interface TrialSummary {
  readonly trial: number
  readonly valid: boolean
  readonly cpuBusy: number
  /** Σ max(0, work − modelled) / Σ modelled in the measured phase. */
  readonly overrunShare: PerSide<number>
  /** Σ modelled / time of the measured phase. */
  readonly utilisation: PerSide<number>
  readonly timerLateMs: PerSide<number>
  readonly startUpMs: number
  /** The lone first request of fresh processes, which pays for the handshake. */
  readonly firstRequestTtftMs: number | null
  readonly handshakeMs: number | null
  readonly peakConcurrency: number
  readonly ttftMs: Pick<Distribution, 'p50' | 'p99'>
  readonly tpotMs: Pick<Distribution, 'p50' | 'p99'>
}

export interface Outlier {
  readonly trial: number
  readonly index: number
  readonly promptTokens: number
  readonly e2elMs: number
}

export interface Spread {
  readonly p50: { readonly min: number | null; readonly max: number | null }
  readonly p99: { readonly min: number | null; readonly max: number | null }
}

export interface RunEntry {
  readonly connector: string
  readonly label: string
  readonly point: {
    /** Null where the load has no rate: callers that wait for their answers. */
    readonly qps: number | null
    readonly inputTokens: number
    readonly inputTokensMax: number
    readonly outputTokens: number
    readonly concurrency: number
  }
  readonly options: Readonly<Record<string, unknown>>
  /** Another checkout's programs; null: this one's. */
  readonly build: { readonly name: string; readonly commit: string | null } | null
  readonly valid: boolean
  readonly stepOverrunMs: number
  readonly cpuBusy: number
  /** Of the modelled devices, in the worst trial. */
  readonly utilisation: PerSide<number>
  readonly agent: 'nixl' | 'memory'
  readonly transports: readonly string[]
  readonly hooks: string
  readonly kvScale: number
  readonly prefixCaching: 'on' | 'off'
  /** Measured and burst requests of all trials. */
  readonly requests: number
  /** Of all phases, warm-up included. */
  readonly failed: number
  readonly dropped: number
  readonly recomputed: number
  readonly preemptions: number
  readonly wrongTexts: number
  readonly bytesVerified: boolean
  readonly blocksLoaded: number
  readonly blocksVerified: number
  readonly mismatchedBlocks: number
  readonly blocksHeldAtEnd: number
  readonly bytes: number
  readonly outputTokensPerS: number
  readonly descriptors: { readonly beforeMerge: number; readonly afterMerge: number }
  readonly ttftMs: Distribution
  readonly ttftFromSendMs: Distribution
  readonly tpotMs: Distribution
  readonly itlMs: Distribution
  readonly e2elMs: Distribution
  readonly clientQueueMs: Distribution
  readonly kvWaitMs: Distribution
  readonly postUs: Distribution
  readonly wireMs: Distribution
  readonly criticalPathMs: Distribution
  readonly pathLessWireMs: Distribution
  readonly firstPostMs: Distribution
  readonly criticalBytes: Distribution
  /** Of D's engine thread, per load. */
  readonly blockedUs: {
    readonly total: Distribution
    readonly descriptors: Distribution
    readonly copy: Distribution
  }
  readonly breakdown: Readonly<Record<BreakdownPart, Distribution>>
  readonly hookUsPerStep: PerSide<Distribution>
  readonly stepStallMs: number
  readonly cpuSecondsPerRequest: PerSide<number>
  readonly blockSecondsHeld: PerSide<number>
  readonly memoryBytes: {
    readonly deviceKv: number
    readonly deviceHistory: number
    readonly hostHistory: number
    readonly slabs: number
    readonly rss: number
  }
  readonly counters: PerSide<Readonly<Record<string, number>>>
  readonly outputDigest: string
  readonly burst: {
    readonly requests: number
    readonly peakConcurrency: number
    readonly ttftMs: Distribution
    readonly e2elMs: Distribution
  }
  readonly trials: readonly TrialSummary[]
  readonly spread: { readonly ttftMs: Spread; readonly tpotMs: Spread }
  readonly outliers: readonly Outlier[]
  /** Why requests failed, bounded. */
  readonly errors: readonly string[]
}

export interface NoiseMetric {
  readonly a: number | null
  readonly b: number | null
  /** |a − b| / mean of both. */
  readonly relativeDifference: number | null
}

export interface NoiseFloor {
  readonly method: 'split-half' | 'repeated-run'
  readonly label: string
  readonly metrics: Readonly<Record<string, NoiseMetric>>
}

export interface Workload {
  readonly preset: string
  readonly requests: number
  readonly warmUp: number
  readonly burst: number
  readonly trials: number
  readonly qps: number
  readonly concurrency: number
  readonly promptTokens: readonly number[]
  readonly outputTokens: number
  readonly streamedShare: number
  readonly engine: Readonly<Record<string, string | number>>
  readonly prefixCaching: 'on' | 'off'
}

export interface CompareResult {
  readonly schema: 'kvferry.compare/1'
  readonly agent: 'nixl' | 'memory'
  readonly environment: Environment
  readonly workload: Workload
  readonly noiseFloor: NoiseFloor
  readonly runs: readonly RunEntry[]
  readonly bars: readonly Bar[]
  readonly verdict: {
    readonly ok: boolean
    readonly failures: readonly string[]
    readonly warnings: readonly string[]
  }
}
