/**
 * What a run is measured on: one prefill and one decode engine behind a router, or one engine alone (the
 * oracle). Two makers stand behind it: separate processes over NIXL, and one process over the in-memory
 * fabric. The measuring code knows neither.
 */
import type { Configuration } from './configuration.ts'
import type { TokenKind } from './load-client.ts'
import type { EngineShape } from './presets.ts'

export interface ClusterEngine {
  readonly role: 'producer' | 'consumer' | 'both'
  readonly url: string
  /** Null when the engine shares the harness's process. */
  readonly pid: number | null
}

export interface Cluster {
  /** Where requests go: the router, or the oracle engine itself. */
  readonly entryUrl: string
  readonly hasRouter: boolean
  readonly tokens: TokenKind
  readonly engines: readonly ClusterEngine[]
  /** Processes beside this one. */
  readonly pids: readonly number[]
  /** Rejects when a part of the cluster ends unasked. Never resolves. */
  readonly failed: Promise<never>
  /** What the parts logged last, for a failure report. */
  logTails(): string
  close(): Promise<void>
}

export interface ClusterSpec {
  /** Names the log files and the engines. */
  readonly name: string
  /** Null: the oracle, one engine without connector. */
  readonly configuration: Configuration | null
  readonly shape: EngineShape
  readonly prefixCaching: 'on' | 'off'
}

/** @throws Error when a part doesn't come up; everything already started is ended then. */
export type StartCluster = (spec: ClusterSpec, signal: AbortSignal) => Promise<Cluster>
