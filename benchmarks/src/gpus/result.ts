/** The shape of a result file of `gpus`; `schema/gpus.schema.json` says the same. Small enough to be kept: medians, not observations. */
import type { AgentPath } from '@kvferry/connector-api'
import type { Environment } from '../lib/environment.ts'
import type { Bar } from '../experiments/bar.ts'
import type { PartName } from './settings.ts'

interface Point {
  readonly direction: 'read' | 'write'
  readonly blockBytes: number
  readonly totalBytes: number
}

/** Ours by descriptors against a bare loop over the C API. */
export interface DescriptorsCase extends Point {
  readonly pairs: number
  /** Medians, from building the lists to the final status: in our agent's thread, and the loop's. */
  readonly oursUs: number
  readonly bareUs: number
  /** From the post in JavaScript to its callback. */
  readonly oursWallUs: number
  /** The loop's time as a share of ours, pair by pair. */
  readonly ratio: number
  readonly ratioInterval: readonly [low: number, high: number]
  /** Loop against loop. */
  readonly spread: number
  readonly gigabytesPerSecond: number
}

export interface PathCase {
  readonly path: AgentPath | 'auto'
  readonly rounds: number
  /** Median, in the agent's thread. */
  readonly us: number
  readonly wallUs: number
  readonly threadUs: number
  readonly cpuUs: number
  readonly spread: number
  readonly gigabytesPerSecond: number
  /** What `auto` took in its last round. */
  readonly took: AgentPath
}

export interface GridCase extends Point {
  readonly paths: readonly PathCase[]
  readonly best: AgentPath
  /** Of `auto` over the best path's time. */
  readonly autoExcess: number
  /** A tenth, or the spread of the best path if that is more. */
  readonly autoAllowed: number
}

export interface CostCase {
  readonly direction: 'read' | 'write'
  readonly pieces: number
  readonly totalBytes: number
  readonly paths: readonly PathCase[]
}

export interface TierCase {
  readonly direction: 'down' | 'up'
  readonly blockBytes: number
  readonly totalBytes: number
  readonly rounds: number
  readonly us: number
  readonly spread: number
  readonly gigabytesPerSecond: number
}

export interface GpusParts {
  readonly descriptors: readonly DescriptorsCase[]
  readonly paths: readonly GridCase[]
  readonly cost: readonly CostCase[]
  readonly tiers: readonly TierCase[]
}

export interface GpusResult extends GpusParts {
  readonly schema: 'kvferry.gpus/1'
  readonly environment: Environment
  /** Initiator's and target's memory, as engines name it. */
  readonly devices: readonly [string, string]
  readonly parts: readonly PartName[]
  /** Largest transfer. */
  readonly totalMibMax: number
  readonly durationMs: number
  /** Every destination was digested, or compared byte by byte. */
  readonly bytesVerified: true
  readonly bars: readonly Bar[]
  readonly verdict: {
    readonly ok: boolean
    readonly warnings: readonly string[]
    readonly failures: readonly string[]
  }
}
