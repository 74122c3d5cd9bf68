/**
 * The port over which connectors move bytes. Implemented by `native-nixl` (real), and by the in-memory
 * agent in `./testing`, which is as treacherous as the real one; one conformance suite judges both.
 *
 * Threads: every method returns at once (or a promise); mapping ids to descriptors, merging, posting
 * and polling happen on the agent's own thread. Listeners run on the JS thread, in batches, never
 * synchronously from inside a method.
 *
 * What it does *not* promise (architecture §6): a transfer that was posted goes on writing until its
 * final status, whatever is released, deregistered or removed meanwhile. There is no cancel.
 */
import type { AnyConnectorError } from './errors.ts'
import type { KvMemory } from './kv-memory.ts'
import type { ProcessIdentity } from './processes.ts'
import type { AgentPath } from './slabs.ts'

declare const handle: unique symbol
type Handle<Name extends string> = number & { readonly [handle]: Name }

/** Index + generation; a stale or foreign one is refused with RangeError, never followed. */
export type RegionHandle = Handle<'region'>
export type PeerHandle = Handle<'peer'>
export type BlockTableHandle = Handle<'block-table'>
export type TransferHandle = Handle<'transfer'>
export type FenceHandle = Handle<'fence'>

/** A moment that a post waits for, for example "the forward that wrote these blocks has ended". */
export interface ReadyFence {
  readonly handle: FenceHandle
}

/** A mark in the work of a GPU, made by the package whose agents wait for it. */
export interface DeviceEvent {
  readonly kind: 'cuda'
  /** Number of the GPU in this process. */
  readonly device: number
}

/** When a fence opens: now without either; with an event `inMs` has no meaning. */
export interface FenceSignal {
  /** So many milliseconds from now, from 0 to an hour. */
  readonly inMs?: number
  /** Once the GPU has done what comes before this event. */
  readonly event?: DeviceEvent
}

/** Registered memory: `lengthBytes` from `offsetBytes` of `memory`. */
export interface RegionOptions {
  readonly memory: KvMemory
  readonly offsetBytes: number
  readonly lengthBytes: number
}

/** One region of a local block table; the range of all its blocks must lie within the registered region. */
export interface BlockTableRegion {
  readonly region: RegionHandle
  /** From the start of the registered region. */
  readonly offsetBytes: number
  readonly blockSizeBytes: number
  readonly blockStrideBytes: number
  readonly blockCount: number
}

/**
 * One side of a post. Blocks: each id stands for one descriptor per region of the table. Segments: byte
 * ranges `[offsets[i], offsets[i] + lengths[i])` from block 0 of region `regions[i]` of the table.
 * Both sides are streams of bytes in this order (blocks region-major: all ids of region 0, then 1, …),
 * paired from the front; their total lengths must be equal. Values are integers below 2^53.
 */
export type TransferSide =
  | { readonly table: BlockTableHandle; readonly blockIds: Uint32Array }
  | {
      readonly table: BlockTableHandle
      readonly regions: Uint32Array
      readonly offsets: Float64Array
      readonly lengths: Float64Array
    }

export interface TransferPost {
  /** From the initiator's view: `read` = remote → local, `write` = local → remote. */
  readonly direction: 'read' | 'write'
  readonly peer: PeerHandle
  readonly local: TransferSide
  readonly remote: TransferSide
  /**
   * Not posted to the network before this fence is signalled; the deadline runs from enqueueing. A post
   * that wasn't posted by its deadline ends `failed` (ERR_KV_DEADLINE) and never is.
   */
  readonly after?: ReadyFence
  /** Delivered to the peer's agent after all bytes have landed. At most `notificationSizeBytesMax`. */
  readonly notification?: Uint8Array
  /** Default `limits.transferDeadlineMs`, from enqueueing. */
  readonly deadlineMs?: number
  /**
   * How the bytes travel; the outcome is the same. Default `descriptors`. `slabs` needs slabs on both
   * sides (`pathsTo`). What differs (slabs.ts): the bytes of the remote side are moved by the *peer's*
   * agent, so that a `write` is final on its word, and a peer that is silent or that nobody proves dead
   * leaves the transfer overdue. `ipc` needs both sides on GPUs of one machine: a kernel of ours moves the
   * bytes (ipc.ts), and the peer takes no part.
   */
  readonly path?: AgentPath
}

export interface TransferTimes {
  /** Enqueued → the agent thread took it up to be posted (includes waiting for `after`). */
  readonly queuedUs: number
  /**
   * Mapping blocks to descriptors, merging them and building the request: the first part of `postUs`. About
   * none where that was done while it waited for `after`.
   */
  readonly prepareUs: number
  /** Taken up → posted. With shared memory this is the whole copy. */
  readonly postUs: number
  /** Start of the post → final status. */
  readonly wireUs: number
  readonly descriptorsBeforeMerge: number
  readonly descriptorsAfterMerge: number
  readonly bytes: number
}

/**
 * `done` and `failed` are final: nothing of this transfer touches memory any more. `overdue` is not:
 * the deadline passed, it may still write, and exactly one final completion follows if it ever ends.
 * Each transfer has at most one `overdue` and at most one final completion.
 */
export type TransferCompletion = { readonly transfer: TransferHandle } & (
  | { readonly status: 'done'; readonly times: TransferTimes }
  | { readonly status: 'failed'; readonly times: TransferTimes; readonly error: AnyConnectorError }
  | { readonly status: 'overdue'; readonly error: AnyConnectorError }
)

export interface AgentNotification {
  /** Agent name the network says it came from. Not an identity: it can be forged (architecture §8). */
  readonly from: string
  readonly message: Uint8Array
}

export interface AgentListener {
  onCompletions(completions: readonly TransferCompletion[]): void
  onNotifications(notifications: readonly AgentNotification[]): void
  /** The agent can't go on (its thread ended, the library failed). Every open transfer is in doubt. */
  onBroken(error: AnyConnectorError): void
}

export interface AgentCounters {
  readonly transfersPosted: number
  readonly transfersDone: number
  readonly transfersFailed: number
  readonly transfersOpen: number
  readonly transfersDraining: number
  readonly notificationsReceived: number
  readonly notificationsDropped: number
  readonly bytesMoved: number
  /** Polls of the library while something was open or expected. */
  readonly polls: number
  /** Slabs of ours that peers have in use now. */
  readonly slabsLent: number
  /** Of these, those whose borrower has been silent for `limits.slabSilenceMs`: out of service until it speaks or is proven dead. */
  readonly slabsSuspect: number
  /** Slabs that left here full, or came here full, since the start. */
  readonly slabsMoved: number
  /** Of `transfersDone`, those by the path `ipc`. */
  readonly transfersByIpc: number
}

export interface TransferAgent {
  /** Unique per incarnation; peers address it by this name. */
  readonly name: string
  readonly kind: 'nixl' | 'memory'
  /** What this agent was made for. `descriptors` always; `slabs` when it was given some; `ipc` when asked for on a GPU. */
  readonly paths: readonly AgentPath[]

  setListener(listener: AgentListener): void

  /** @throws RangeError bounds; ConnectorError ERR_NIXL, ERR_KV_LIMIT, ERR_KV_CLOSED. */
  registerRegion(options: RegionOptions): Promise<RegionHandle>
  /** @throws ConnectorError ERR_KV_BUSY while a transfer of ours touches the region or a table uses it. */
  deregisterRegion(region: RegionHandle): Promise<void>

  /** Connection data for peers. Lists the regions registered *before* the call. */
  localMetadata(): Promise<Uint8Array>

  /** A table over own regions. */
  declareBlockTable(regions: readonly BlockTableRegion[]): BlockTableHandle
  /** Opaque description of a local table, for `importBlockTable` on a peer. */
  exportBlockTable(table: BlockTableHandle): Uint8Array
  /** @throws ConnectorError ERR_KV_MESSAGE_INVALID when malformed, wrapping, empty or over a limit. */
  importBlockTable(peer: PeerHandle, exported: Uint8Array): BlockTableHandle
  /** Block count and per-region block sizes, local or imported. */
  describeBlockTable(table: BlockTableHandle): {
    readonly blockCount: number
    readonly blockSizesBytes: readonly number[]
  }
  /** Idempotent. @throws ConnectorError ERR_KV_BUSY while a transfer uses it. */
  releaseBlockTable(table: BlockTableHandle): void

  /**
   * Loads the peer's metadata, verifies that it names `expectedName`, and starts wire-up. Replaces a
   * peer of that name: the older handle and its tables are stale then.
   * @throws ConnectorError ERR_KV_PEER_INCOMPATIBLE (name), ERR_KV_MESSAGE_INVALID, ERR_NIXL, ERR_KV_LIMIT;
   *   ERR_KV_BUSY while a transfer with an earlier peer of that name has no final status.
   */
  addPeer(options: {
    readonly metadata: Uint8Array
    readonly expectedName: string
  }): Promise<PeerHandle>
  /** Forgets the peer and its tables. Open transfers stay tracked to their final status. Idempotent. */
  removePeer(peer: PeerHandle): Promise<void>

  /** What a post to this peer may name as its `path`: what both agents have, and for `ipc` what could be mapped. @throws RangeError for a stale handle. */
  pathsTo(peer: PeerHandle): readonly AgentPath[]
  /**
   * The caller's proof that this process has ended (architecture §6). What it left in our slabs is dropped,
   * a copy out of one that is under way ends first, and they return to service; transfers that wait for a
   * peer's agent in that process end `failed`. Once it resolves, nothing that came from there touches our
   * memory any more. Blocks that this process may have written must not be reused before. On a GPU that takes a
   * second: what a process gave its GPU to do may end a moment after the process.
   */
  processEnded(process: ProcessIdentity): Promise<void>

  createFence(): ReadyFence
  /**
   * Now, or `inMs` from now, by the agent's own thread: whoever knows the moment beforehand need not be
   * awake at it. Of several calls the earliest moment counts; after it they change nothing. The fence's
   * handle is released when no post waits for it any more.
   *
   * Or once a GPU has done what comes before an event: the agent's thread asks while a post waits for it, at most until
   * the post's deadline, and never waits itself. If the GPU fails first, posts behind the fence end `failed`
   * with ERR_CUDA and none of them moves, and the fence stays like that. One event a fence.
   * @throws RangeError for an `inMs` that is no number from 0 to an hour, an event that was never recorded, a second event; TypeError
   *   for an event of another package; ConnectorError ERR_KV_UNSUPPORTED (`fence by event`): not an agent of the event's GPU.
   */
  signalFence(fence: ReadyFence, options?: FenceSignal): void

  /**
   * Enqueues all posts, or none. Returns one handle per post, in order.
   * `waitUntilPosted` blocks the JS thread until the agent thread has posted them (the older vLLM's
   * inline posting; with shared memory this includes the copy). Posts behind an open fence aren't
   * waited for: only the waiting thread could signal it.
   * @throws RangeError for ids, ranges, lengths or overlaps out of bounds; TypeError for a bad form;
   *   ConnectorError ERR_KV_LIMIT (queue full), ERR_KV_CLOSED. Nothing is enqueued then.
   */
  post(
    posts: readonly TransferPost[],
    options?: { readonly waitUntilPosted?: boolean },
  ): TransferHandle[]

  /** A message without a transfer. Resolves when handed to the network, not when delivered. */
  notify(peer: PeerHandle, message: Uint8Array): Promise<void>

  /**
   * While on, the agent polls although nothing of its own is open: needed for notifications to arrive,
   * and, as a *target*, from handshake until wire-up is complete and while any lease is open.
   */
  expectNotifications(isExpected: boolean): void

  counters(): AgentCounters

  /** Resolves when no transfer is open. @throws ConnectorError ERR_KV_DEADLINE. */
  drain(options: { readonly deadlineMs: number }): Promise<void>
  /** Stops intake, waits up to `deadlineMs` for open transfers, destroys the agent. Idempotent. */
  close(options?: { readonly deadlineMs?: number }): Promise<void>
}
