/**
 * What crosses between the HTTP side and the engine core, in both directions: plain data only, so that it
 * can cross a thread. Requests go in one by one, events come out once a step.
 */
import type {
  ConnectorCapabilities,
  ConnectorErrorCode,
  ConnectorRole,
  KvTransferParams,
  KvferryConfig,
} from '@kvferry/connector-api'
import type { BlockCounts } from './block-pool.ts'
import type { StepTotals } from './step-accounts.ts'
import type { HookPlacement } from './step-runner.ts'
import type { RequestStateKind } from './request-state.ts'
import type { EngineTimings } from './timings.ts'

/** vLLM's names: each token's heads together, or each head's tokens. */
export type KvLayout = 'LBNHC' | 'LBHNC'

/**
 * In which order a pool that was never used gives its blocks away. `scattered`: no two neighbours in a row, as after hours of
 * service, so that a transfer has a descriptor for each block and region.
 */
export type BlockOrder = 'sequential' | 'scattered'

/** Resolved and validated; the same object at both sides. */
export interface EngineSettings {
  readonly role: ConnectorRole
  readonly model: string
  readonly kvScale: number
  readonly timeScale: number
  /** Ranks that share the heads. */
  readonly tpSize: number
  /** Order of tokens and heads in a block. */
  readonly kvLayout: KvLayout
  readonly blockTokens: number
  readonly blockCount: number
  readonly blockOrder: BlockOrder
  readonly maxNumSeqs: number
  readonly maxNumBatchedTokens: number
  readonly maxModelLen: number
  readonly isPrefixCachingOn: boolean
  readonly hooks: HookPlacement
  /** Number of the GPU whose memory holds the KV; null: host memory. */
  readonly device: number | null
}

export interface CoreConfig {
  readonly engineId: string
  readonly incarnation: string
  readonly settings: EngineSettings
  /** null: no connector, one engine does all. */
  readonly kvferry: KvferryConfig | null
}

export interface CoreSubmit {
  readonly requestId: string
  readonly promptTokens: Uint8Array
  /** Null: that of these tokens, which the core works out where no step waits for it. */
  readonly promptDigest: Uint8Array | null
  readonly maxTokens: number
  readonly kvTransferParams: KvTransferParams | null
  readonly receivedAtMs: number
}

export type CoreFinishReason = 'length' | 'abort' | 'error'

export interface CoreError {
  readonly code: ConnectorErrorCode
  readonly message: string
}

export type CoreEvent =
  | { readonly kind: 'token'; readonly requestId: string; readonly token: number }
  | {
      readonly kind: 'end'
      readonly requestId: string
      readonly finishReason: CoreFinishReason
      readonly error: CoreError | null
      readonly kvTransferParams: KvTransferParams | null
      readonly timings: EngineTimings
    }

/** `GET /kvferry/v1/peer`. */
export interface PeerView {
  readonly connector: string | null
  readonly transferMode: string | null
  /** In which order routers ask P and D; null without a connector. */
  readonly dispatch: ConnectorCapabilities['dispatch'] | null
  readonly engineId: string
  readonly incarnation: string
  readonly role: ConnectorRole
  readonly sideChannel: { readonly host: string; readonly port: number } | null
  readonly tpSize: number
  readonly ppSize: number
  readonly blockTokens: number
  readonly supportsDifferentBlockSizes: boolean
  readonly tensorParallel: ConnectorCapabilities['tensorParallel']
  readonly model: string
  readonly wireVersion: number
}

/** `GET /kvferry/v1/stats`. */
export interface EngineStats extends StepTotals {
  readonly engineId: string
  readonly role: ConnectorRole
  readonly connector: string | null
  /** Who provides KV memory and transfers. */
  readonly agent: 'nixl' | 'memory'
  readonly transports: readonly string[]
  readonly hooks: HookPlacement
  readonly kvScale: number
  readonly cpuSeconds: number
  readonly rssBytes: number
  readonly blocks: BlockCounts
  readonly blockSecondsHeld: number
  readonly requests: Readonly<Record<RequestStateKind, number>>
  readonly verification: {
    readonly blocksLoaded: number
    readonly blocksVerified: number
    readonly mismatchedBlocks: number
  }
  readonly agentCounters: Readonly<Record<string, number>>
  readonly connectorCounters: Readonly<Record<string, number>>
  readonly memoryBytes: {
    readonly deviceKv: number
    readonly deviceHistory: number
    readonly hostHistory: number
    readonly slabs: number
    readonly rss: number
  }
}

/** `GET /kvferry/v1/debug`: where KV lies, for tests that damage it from outside. */
export interface DebugView {
  readonly pid: number
  readonly regions: readonly {
    readonly name: string
    /** Hexadecimal; null where memory has no address that another process could use. */
    readonly address: string | null
    readonly blockSizeBytes: number
    readonly blockStrideBytes: number
    readonly blockCount: number
  }[]
  readonly requests: readonly {
    readonly requestId: string
    readonly state: RequestStateKind
    readonly blockIds: readonly number[]
  }[]
}

/** The core as the HTTP side sees it: on another thread, or inline. */
export interface CoreClient {
  readonly peer: PeerView
  submit(request: CoreSubmit): void
  /** Its caller is gone: it ends, or if it has ended, its answer reached nobody. Unknown ones are ignored. */
  abort(requestId: string): void
  /** Called once a step that has something to tell. Set before the first `submit`. */
  setListener(listener: CoreListener): void
  stats(): Promise<EngineStats>
  metricsText(): Promise<string>
  debug(): Promise<DebugView>
  /** Lets open requests end, aborts the rest, releases everything, all by the deadline. Idempotent. */
  close(options: { readonly deadlineMs: number }): Promise<void>
}

export interface CoreListener {
  onEvents(events: readonly CoreEvent[]): void
  /** The core can't go on: a broken invariant, or its thread ended. Nothing will be answered any more. */
  onFatal(error: Error): void
}
