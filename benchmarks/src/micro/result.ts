/**
 * The shape of a `micro` result file; `schema/micro.schema.json` says the same for other people's
 * programs, and every result is validated against it before it is written.
 */
import type { Distribution } from '../lib/distribution.ts'
import type { Environment } from '../lib/environment.ts'
import type { Bar } from './pair-statistics.ts'

export interface ThroughputCase {
  readonly kind: 'throughput'
  readonly label: string
  readonly direction: 'read'
  /** Bytes of one transfer, and how many are posted at once. */
  readonly sizeBytes: number
  readonly depth: number
  readonly descriptors: { readonly countPerTransfer: number; readonly sizeBytes: number }
  readonly pairs: number
  /** First post → last completion (ours: in the JavaScript callback), of one round. */
  readonly oursUs: Distribution
  readonly bareUs: Distribution
  /** Ours as a share of the bare loop's throughput, pair by pair. */
  readonly ratio: Distribution
  readonly ratioMedianInterval: readonly [low: number, high: number]
  /** Bare against bare, the same way. */
  readonly noise: {
    readonly ratio: Distribution
    readonly ratioMedianInterval: readonly [low: number, high: number]
    readonly spread: number
  }
  readonly bar: Bar
}

export interface DistributionCase {
  readonly kind: 'post-js-thread' | 'completion-to-callback'
  readonly label: string
  readonly us: Distribution
  readonly bar: Bar
}

export interface CpuCase {
  readonly kind: 'idle-cpu' | 'polling-cpu' | 'router-cpu'
  readonly label: string
  readonly durationMs: number
  /** CPU time of the whole process as a share of one core. */
  readonly share: number
  readonly bar: Bar
}

/** Our post against the same transfer made through NIXL's Python bindings, where a Python was named. */
export interface PythonCase {
  readonly kind: 'python-bindings'
  readonly label: string
  /** Why it was not measured; null when it was. The distributions are null then. */
  readonly skipped: string | null
  readonly oursUs: Distribution | null
  readonly pythonUs: Distribution | null
  /** Its value: median of ours over median of Python's. */
  readonly bar: Bar
}

/** Microseconds on a way through the router, and on the same way without it. */
export interface RouterCase {
  readonly kind: 'router-added-latency'
  readonly label: string
  readonly rounds: number
  readonly directUs: Distribution
  readonly routedUs: Distribution
  /** Per round: the routed window's median less the direct one's next to it. */
  readonly addedUs: Distribution
  readonly addedMedianInterval: readonly [low: number, high: number]
  /** Direct against direct, the same way. */
  readonly noise: {
    readonly addedUs: Distribution
    readonly addedMedianInterval: readonly [low: number, high: number]
    readonly spreadUs: number
  }
  readonly bar: Bar
}

/** The same blocks by descriptors and by slabs. */
export interface PathsCase {
  readonly kind: 'paths'
  readonly label: string
  readonly direction: 'read' | 'write'
  readonly blockSizeBytes: number
  readonly blockCount: number
  readonly pairs: number
  /** Post → completion in the JavaScript callback. */
  readonly descriptorsUs: Distribution
  readonly slabsUs: Distribution
  /** Throughput by slabs as a share of that by descriptors, pair by pair. */
  readonly ratio: Distribution
  readonly ratioMedianInterval: readonly [low: number, high: number]
  /** Descriptors against descriptors, the same way. */
  readonly noise: { readonly ratio: Distribution; readonly spread: number }
  readonly bytesVerified: boolean
  readonly bar: Bar
}

export type MicroCase = ThroughputCase | DistributionCase | CpuCase | PythonCase

export interface MicroResult {
  readonly schema: 'kvferry.micro/1'
  readonly agent: 'nixl'
  readonly environment: Environment
  readonly workload: {
    readonly pairs: number
    readonly baseline: string
    readonly memory: string
    readonly variables: Readonly<Record<string, string>>
  }
  /** Of the case with the throughput bar. */
  readonly noiseFloor: {
    readonly method: 'a-a-pairs'
    readonly label: string
    readonly spread: number
  }
  readonly cases: readonly MicroCase[]
  readonly verdict: { readonly ok: boolean; readonly failures: readonly string[] }
}

/** Lookup, reserve and touch of a prompt that is found whole, in a history of `entries` blocks. */
export interface HistoryCase {
  readonly kind: 'history-lookup'
  readonly label: string
  readonly entries: number
  readonly blocksPerPrompt: number
  readonly rounds: number
  /** The median prompt of each round. */
  readonly usPerBlock: Distribution
  /** Memory of the index alone, by its capacity. */
  readonly bytesPerEntry: number
  readonly bar: Bar
}

/** The largest history's time as a multiple of the smallest's, round by round. */
export interface HistoryGrowthCase {
  readonly kind: 'history-growth'
  readonly label: string
  readonly ratio: Distribution
  readonly bar: Bar
}

/** The same file with another part measured: `micro --history`. */
export interface MicroHistoryResult {
  readonly schema: 'kvferry.micro/1'
  /** No agent takes part. */
  readonly agent: 'none'
  readonly environment: Environment
  readonly workload: {
    readonly rounds: number
    readonly blocksPerPrompt: number
    readonly promptsPerRound: number
  }
  readonly noiseFloor: {
    readonly method: 'a-a-pairs'
    readonly label: string
    readonly spread: number
    readonly unit: 'ratio'
  }
  readonly cases: readonly (HistoryCase | HistoryGrowthCase)[]
  readonly verdict: { readonly ok: boolean; readonly failures: readonly string[] }
}

/** The same file with another part measured: `micro --router`. */
export interface MicroRouterResult {
  readonly schema: 'kvferry.micro/1'
  /** No agent takes part. */
  readonly agent: 'none'
  readonly environment: Environment
  readonly workload: {
    readonly rounds: number
    readonly streams: number
    readonly tokensPerStream: number
    /** Of all streams together. */
    readonly tokensPerS: number
    readonly baseline: string
  }
  readonly noiseFloor: {
    readonly method: 'a-a-pairs'
    readonly label: string
    readonly spread: number
    readonly unit: 'us'
  }
  readonly cases: readonly (RouterCase | CpuCase)[]
  readonly verdict: { readonly ok: boolean; readonly failures: readonly string[] }
}

/** The same file with the agent's paths measured: `micro --paths`. */
export interface MicroPathsResult {
  readonly schema: 'kvferry.micro/1'
  readonly agent: 'nixl'
  readonly environment: Environment
  readonly workload: {
    readonly rounds: number
    readonly slabs: { readonly sizeBytes: number; readonly countPerDirection: number }
    readonly baseline: string
    readonly variables: Readonly<Record<string, string>>
  }
  readonly noiseFloor: {
    readonly method: 'a-a-pairs'
    readonly label: string
    readonly spread: number
  }
  readonly cases: readonly PathsCase[]
  readonly verdict: { readonly ok: boolean; readonly failures: readonly string[] }
}
