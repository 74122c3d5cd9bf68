/**
 * The hooks an engine calls, in vLLM's order and with vLLM's meaning (`KVConnectorBase_V1`), split in two
 * halves that may live in different processes and talk only through bytes. The scheduler half decides
 * and does no I/O; the worker half performs. Neither ever throws out of a hook for an operating error:
 * a failed load is reported, with its blocks, in `getTransferResults`.
 */
import type { BlockKeys } from './block-keys.ts'
import type { ConnectorCapabilities } from './capabilities.ts'
import type { Clock } from './clock.ts'
import type { AnyConnectorError } from './errors.ts'
import type { KvferryConfig } from './config.ts'
import type { HistoryProvider } from './history.ts'
import type { EngineId, Incarnation, Rank, RankKey, RequestId } from './ids.ts'
import type { KvCacheLayout, KvKernels, KvMemoryAllocator } from './kv-memory.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'
import type { ProcessTable } from './processes.ts'
import type { Random } from './random.ts'
import type { SideChannel } from './side-channel.ts'
import type { ReadyFence, TransferAgent } from './transfer-agent.ts'

/** JSON object of the request or response field `kv_transfer_params`; keys as in vLLM (snake case). */
export type KvTransferParams = Readonly<Record<string, unknown>>

/** Logical block ids, one list per KV group, in token order. */
export type BlockIds = readonly Uint32Array[]

/** Why the engine ended a request. Only the first two leave complete KV behind. */
export type FinishReason = 'stopped' | 'length-capped' | 'aborted' | 'failed'

export interface RequestView {
  readonly requestId: RequestId
  readonly promptTokenCount: number
  /**
   * Which prompt it is: `digestTokens` of the prompt's ids. Two requests with different ones must not share
   * KV, whatever a handoff says. Worked out once, where the tokens are.
   */
  readonly promptDigest: Uint8Array
  /**
   * `digestTokens` of its first `tokenCount` tokens, answer included; null when it doesn't have so many.
   * Engines that lack it serve no connector that hands answers over (`isBidirectional`).
   */
  digestOf?(tokenCount: number): Uint8Array | null
  /**
   * `chainBlockKeys` of its first `tokenCount` prompt tokens, in blocks of the engine's size, under all that
   * shapes KV in this engine (model, layout, LoRA, salt). Worked out when asked, at the price of a hash for each block:
   * a connector that doesn't ask pays nothing, one that does keeps the answer. Keys mean something only to
   * the engine that made them. Engines that lack it have no KV found by content (history).
   */
  blockKeysOf?(tokenCount: number): BlockKeys
  /** Tokens whose KV is valid now. */
  readonly computedTokenCount: number
  readonly kvTransferParams: KvTransferParams | null
  /** Set once the request ended. */
  readonly finishReason: FinishReason | null
}

/** What one request gets in one step. */
export interface ScheduledRequest {
  readonly requestId: RequestId
  /** Tokens whose KV is valid once this step's forward has ended. */
  readonly computedTokenCountAfter: number
  /**
   * Blocks that it got since the last step that was played, in token order, and that no
   * `updateStateAfterAlloc` named: those of later chunks and of generated tokens.
   */
  readonly newBlockIds: BlockIds
}

export interface StepView {
  /**
   * 0-based number of the engine step; never falls. Steps that tell the connector nothing may be left out
   * (an engine that only waits makes thousands a second), and `requestStep` may be answered by a step
   * that has the number of the one before it.
   */
  readonly stepIndex: number
  /** Requests with tokens in this step; those without `kvTransferParams` may be left out. */
  readonly scheduled: readonly ScheduledRequest[]
  readonly preemptedRequestIds: readonly RequestId[]
}

/** What one step's worker hooks found, aggregated over ranks, for the scheduler half and the engine. */
export interface WorkerOutput {
  readonly sent: readonly RequestId[]
  readonly received: readonly RequestId[]
  readonly failed: readonly FailedLoad[]
  /** Answers to what the scheduler half asked in step metadata. Each question is answered exactly once. */
  readonly matched?: readonly MatchedBlocks[]
}

/**
 * How much of a prompt a worker half can put back by itself. What is stored is known where the transfers
 * are, and the scheduler half promises tokens: it asks in step metadata, says `tokens: null` meanwhile, and the
 * worker half answers here and wakes the engine. Over ranks the least counts, once every rank has answered.
 */
export interface MatchedBlocks {
  readonly requestId: RequestId
  /** The asker's number of its question: an id may come again while an answer is on its way. */
  readonly question: number
  /** In a row, from the block that was asked for on. */
  readonly blockCount: number
}

/** A load that ended without valid KV. Also listed in `received`: its blocks are the engine's again. */
export interface FailedLoad {
  readonly requestId: RequestId
  /** Logical ids that hold no valid KV, per group. */
  readonly blockIds: BlockIds
  readonly error: AnyConnectorError
}

/** Per-load measurements for the harness; drained by `getStats`. Times are of this process's clock. */
export interface LoadSample {
  readonly requestId: RequestId
  readonly bindAtMs: number
  readonly handshakeMs: number
  readonly queuedUs: number
  /** The first part of `postUs`: work on descriptors. */
  readonly prepareUs: number
  readonly postUs: number
  readonly wireUs: number
  /** Final status known to the worker half. */
  readonly completeAtMs: number
  /** When the (first) post began, in the initiator's clock; null when nothing was posted, or unknown. */
  readonly postedAtMs: number | null
  readonly bytes: number
  /** Bytes whose transfer had not ended when the last one began: all, unless some left before the rest. */
  readonly lastBytes: number
  readonly descriptorsBeforeMerge: number
  readonly descriptorsAfterMerge: number
  /** For so long the engine's thread worked on this load inside a hook, or waited there for its post. */
  readonly blockedUs: number
  /** Of `blockedUs`: waiting for bytes to be copied inside the post. */
  readonly blockedCopyUs: number
}

export interface StatsSnapshot {
  readonly loads: readonly LoadSample[]
  readonly counters: Readonly<Record<string, number>>
}

export interface CommonComponents {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
  readonly config: KvferryConfig
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  /** Wakes an idle engine so that it runs a step; safe to call often, from any event. */
  requestStep(): void
}
export interface SchedulerComponents extends CommonComponents {
  /** Tokens per block. */
  readonly blockTokens: number
}
/**
 * What peers say (side channel, notifications) must not overtake what the engine had told a half before: a
 * reader asks about a request only after the engine answered it. Where the two arrive on different ways,
 * as in a process beside the engine, whoever assembles the components keeps that order.
 */
export interface WorkerComponents extends CommonComponents {
  /** This rank's own. */
  readonly agent: TransferAgent
  /** The engine's: all its ranks share it. */
  readonly sideChannel: SideChannel
  readonly kernels?: KvKernels
  /** For connectors that keep released KV (xavier): opened once the caches are known. */
  readonly history?: HistoryProvider
  /** Host memory that the agent can register, for connectors that stage (`bufferDevice: host`). */
  readonly allocator?: KvMemoryAllocator
  /** For connectors whose blocks others write into: proof that a writer is gone. Without it they wait. */
  readonly processes?: ProcessTable
}

export interface ConnectorFactory {
  readonly name: string
  readonly capabilities: ConnectorCapabilities
  /** Validates and completes `config.options`. @throws ConnectorError ERR_KV_CONFIG naming the nearest known key. */
  parseOptions(options: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>
  /**
   * What the connector would refuse of a whole config on an engine that offers all it can use, for those who
   * check one without an engine. Its worker half refuses the same. Added in CONTRACT_VERSION 6.
   * @throws ConnectorError ERR_KV_CONFIG naming field, value and remedy.
   */
  checkConfig?(config: KvferryConfig): void
  /** One per engine. */
  createScheduler(components: SchedulerComponents): ConnectorScheduler
  /** One per rank. */
  createWorker(components: WorkerComponents, rank: Rank): ConnectorWorker
}

export interface ConnectorScheduler {
  /** Once, after every worker registered its caches. */
  setHandshakeMetadata(byRank: ReadonlyMap<RankKey, Uint8Array>): void
  onNewRequest(request: RequestView): void
  /**
   * Tokens available beyond `computedTokenCount` (the local prefix hit, a multiple of the block size).
   * No I/O, no allocation, repeatable: allocation may still fail. `tokens: null` = ask again next step;
   * `isAsync` is false when `tokens` is 0 or null. Malformed params give 0, never an exception.
   */
  getNumNewMatchedTokens(
    request: RequestView,
    computedTokenCount: number,
  ): { readonly tokens: number | null; readonly isAsync: boolean }
  /**
   * The commit point. `blocks` are all of the request's, local hits first. Called again with
   * `externalTokenCount = 0` when the request comes back from its load.
   */
  updateStateAfterAlloc(request: RequestView, blocks: BlockIds, externalTokenCount: number): void
  /** Once per step that is played (`StepView.stepIndex`). Drains: nothing is sent twice. */
  buildConnectorMeta(step: StepView): Uint8Array
  /**
   * Before the engine frees or schedules what `output` names; left out when it names nothing. A load that
   * failed may have ended its request already: vLLM calls `requestFinished` first then, with only the
   * blocks before the first bad one.
   */
  updateConnectorOutput(output: WorkerOutput): void
  /**
   * Exactly once per request, before its blocks are freed. `delayFree`: the engine keeps the blocks
   * until a worker reports the id as `sent`. The engine owns the params (vLLM adds keys of its own to them).
   */
  requestFinished(
    request: RequestView,
    blocks: BlockIds,
  ): { readonly delayFree: boolean; readonly kvTransferParams: KvTransferParams | null }
  /**
   * Between `delayFree` and the report `sent`: the answer with the params didn't reach who had asked, so nobody
   * will come for these blocks. The connector lets go at once of what no peer has claimed; a claim that came
   * before wins, one that comes after is refused as after the lease's end. The report follows as ever. Engines
   * that don't learn of it leave it out, and the lease ends by its time. Added in CONTRACT_VERSION 7.
   */
  handoffUndelivered?(requestId: RequestId): void
  /**
   * An idle engine goes on stepping while either is true. Not vLLM's hook `has_pending_block_frees`, which
   * makes its scheduler wait for blocks instead of preempting: both answer its `has_pending_push_work`.
   */
  hasPendingPushWork(): boolean
  hasPendingBlockFrees(): boolean
  shutdown(): Promise<void>
}

export interface ConnectorWorker {
  /** Once, before serving. Registers the regions; returns this rank's handshake metadata. */
  registerKvCaches(caches: KvCacheLayout): Promise<Uint8Array>
  /** Awaited: the blocks of preempted requests get new owners as soon as it resolves. */
  handlePreemptions(meta: Uint8Array): Promise<void>
  /** Once a step. Loads leave here; it never waits (unless posting is `inline`). */
  bindConnectorMetadata(meta: Uint8Array): void
  /** After the forward was launched; saves are handed over here, in the same step. */
  waitForSave(ready: ReadyFence | null): void
  /** Once a step. Each id exactly once per direction; a failed load is in `failed` and in `received`. */
  getTransferResults(finished: ReadonlySet<RequestId>): WorkerOutput
  getStats(): StatsSnapshot | null
  /** Idempotent, safe half-initialised. Waits for open transfers up to its deadline. */
  shutdown(): Promise<void>
}
