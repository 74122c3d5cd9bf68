/**
 * The port to tiered KV history: KV that a producer's engine has released, kept by content in device and
 * host memory, and copied back into the engine's own blocks when a prompt returns. `@kvferry/kv-history`
 * implements it; a connector receives it, and whoever assembles an engine joins the two.
 *
 * **Who calls what, and where.** The index and all copies live where the transfers are: with the worker
 * half (in vLLM: in the host process), never with the scheduler half, which has no I/O. All methods run
 * on that thread's event loop; those that don't return a promise are synchronous, touch no KV and are
 * atomic. The scheduler half works out keys (`chainBlockKeys`, or its engine has them) and sends them along.
 *
 * | when (P only) | who | calls |
 * | --- | --- | --- |
 * | a request arrived or is asked about again | worker half, on the scheduler half's word | `reserve` (release the old lease first) |
 * | its blocks are allocated | worker half, in `bindConnectorMetadata` | `restore`; report `received` when it settles |
 * | aborted before its blocks were allocated | worker half | `release` |
 * | its ticket was released by the reader | worker half | `offer`; the blocks are `sent` when that has ended |
 * | each `getStats` | worker half | `counters`, `gauges` |
 * | shutdown, after the last ticket | worker half | `close` |
 *
 * History is a cache: no method throws for an operating error, and none fails a request. What isn't there, or
 * can't be read, is recomputed.
 */
import type { BlockKeys } from './block-keys.ts'
import type { Clock } from './clock.ts'
import type { AnyConnectorError } from './errors.ts'
import type { HistoryCounters } from './history-counters.ts'
import type { KvCacheLayout } from './kv-memory.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'
import type { Random } from './random.ts'

declare const lease: unique symbol
/** One reservation. Starts with `history:`, so that none is taken for a ticket; never used twice. */
export type HistoryLease = string & { readonly [lease]: true }

export interface HistoryReservation {
  readonly lease: HistoryLease
  /** Blocks in a row that are stored, from the first that was asked for; at least 1. */
  readonly blockCount: number
}

/** In `restore`: this position has no destination (a placeholder of the engine), pass over it. */
export const noDestination = 0xffff_ffff

/** How a restore ended. Once it has, nothing of it touches the destinations any more. */
export type HistoryRestore =
  /** `blockCount` blocks hold their KV: `deviceBlockCount` came from the device tier, the rest from host. */
  | {
      readonly kind: 'restored'
      readonly blockCount: number
      readonly deviceBlockCount: number
    }
  /** The lease expired, was released, or never was: nothing was written. Recompute. */
  | { readonly kind: 'lease-gone' }
  /** A copy failed: any destination may hold anything. Report all of them invalid, recompute. */
  | { readonly kind: 'failed'; readonly error: AnyConnectorError }

/** What a finished request leaves behind. */
export interface HistoryOffer {
  /** Of its whole prompt but the last token; the last block may be partial. */
  readonly keys: BlockKeys
  /** The engine's block for each key. They stay the request's until the offer has ended. */
  readonly blockIds: Uint32Array
}

export interface HistoryGauges {
  /** What stands for the device tier: `host` on a machine without a GPU, and results must say so. */
  readonly deviceMemory: 'cuda' | 'host'
  readonly deviceBlocks: number
  readonly hostBlocks: number
  readonly deviceBlockCapacity: number
  readonly hostBlockCapacity: number
  /** Memory held for the tiers now; without a GPU 0 until the first block is kept. */
  readonly deviceBytesReserved: number
  readonly hostBytesReserved: number
  readonly leasesOpen: number
  /** Slots that a copy without an end may still touch: out of service until it ends. */
  readonly slotsQuarantined: number
}

export interface KvHistory {
  /** False with `gpuCacheBytes: 0`: nothing is ever stored or found, and nothing costs anything. */
  readonly isEnabled: boolean
  /** Stored blocks in a row from key `firstBlock` on. Changes nothing and promises nothing. */
  lookup(keys: BlockKeys, firstBlock: number): number
  /**
   * Pins the run that `lookup` finds, so that it neither moves nor goes, for 120 s (not renewed), and makes
   * it the most recently used, its head before its tail. Not a hit. Null: nothing is stored there, too many
   * leases are open, or history is closing or off.
   */
  reserve(keys: BlockKeys, firstBlock: number): HistoryReservation | null
  /**
   * Copies the reserved blocks into the engine's: `destinations[i]` takes the i-th block of the reservation.
   * Shorter than the reservation: the rest isn't wanted. The lease ends with it, however it ends. Settles
   * when the copies have: if one never ends, so does this promise, and the destinations stay in doubt
   * (architecture §6); the caller has its own deadline. Never rejects for an operating error.
   */
  restore(lease: HistoryLease, destinations: Uint32Array): Promise<HistoryRestore>
  /** Unpins. Idempotent; while the lease is being restored it ends with that instead. */
  release(lease: HistoryLease): void
  /**
   * Once per finished request, in the order of their ends. Null: nothing is copied, the blocks may be freed
   * at once. A promise: they are being copied; free them when it resolves (never rejects). It resolves within
   * the writer's deadline plus one chunk, or plus the copy's own deadline where a copy hangs.
   */
  offer(offer: HistoryOffer): Promise<void> | null
  counters(): HistoryCounters
  gauges(): HistoryGauges
  /**
   * Takes nothing more, ends the writer before its next chunk, waits for running copies up to their
   * deadline, frees the tiers. Idempotent. Memory that a copy without an end may touch is not freed.
   */
  close(): Promise<void>
}

/**
 * The connector's two transfer directions. Copies of history and slabs of handoffs use the same
 * bandwidth, and a handoff that somebody waits for goes first.
 */
export interface TransferDirections {
  /** Whether the writer is to make way now. It waits, within its deadline, until this is over. */
  isBusy(): boolean
  /**
   * `work` uses the direction until it ends: the writer sends, a restore receives. Whether anything waits for that is the
   * connector's to say.
   */
  during<T>(direction: 'send' | 'receive', work: () => Promise<T>): Promise<T>
}

export const freeDirections: TransferDirections = {
  isBusy: () => false,
  during: (_, work) => work(),
}

/**
 * Which blocks are kept, and when the host tier is written: only content that has come twice once both
 * tiers are full, everything as it leaves the device, or everything at once to both.
 */
export const historyPolicyNames = ['observed-reuse', 'copy-on-eviction', 'write-through'] as const
export type HistoryPolicyName = (typeof historyPolicyNames)[number]

export interface HistoryOptions {
  /** The engine's, as in `registerKvCaches`: what is copied from and to. */
  readonly caches: KvCacheLayout
  /** Budget of the device tier in bytes. 0 turns history off. Default 268,435,456. */
  readonly gpuCacheBytes?: number
  /** Blocks of the host tier. Default: the engine's block count. */
  readonly hostBlockCount?: number
  /** Default `observed-reuse`. */
  readonly policy?: HistoryPolicyName
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  /** Default `freeDirections`. */
  readonly directions?: TransferDirections
}

/** Made by whoever knows the machine's memory; given to worker halves. */
export interface HistoryProvider {
  /**
   * Once per engine life, in `registerKvCaches`. Beside a GPU it takes the tiers' memory; elsewhere the first block does.
   * @throws ConnectorError ERR_KV_CONFIG for a size that is no non-negative integer or an unknown policy; what the
   *   allocators refuse.
   */
  open(options: HistoryOptions): KvHistory
}
