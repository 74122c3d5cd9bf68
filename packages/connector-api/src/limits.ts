/**
 * Every bound of the protocol layer, with its unit and reason. Nothing grows without one. The relations
 * between bounds are asserted when this module loads, so a change that breaks one can't start.
 */
import { assert } from './assert.ts'

export const limits = {
  /** Bytes of one side-channel frame. Agent metadata of ~500 B per region set and block tables fit; a hostile length does not. */
  frameSizeBytesMax: 1_048_576,
  /** Open side-channel associations per engine, both directions. */
  associationCountMax: 256,
  /** Requests awaiting an answer on one association. */
  requestsInFlightPerAssociationMax: 1_024,
  /** Default wait for one side-channel answer. vLLM's handshake waits 5 s per rank. */
  sideChannelTimeoutMs: 5_000,
  /** Whole handshake: connect, exchange, add the peer. */
  handshakeTimeoutMs: 10_000,
  /** Length of one id in UTF-8 bytes (engine, request, connector). A notification must hold one. */
  idSizeBytesMax: 256,
  /** Bytes of agent metadata accepted from a peer. Measured: 318–456 B for UCX with one region set. */
  agentMetadataSizeBytesMax: 65_536,
  /** Regions (per-layer tensors) of one block table. The largest models have fewer than 256 layers; K and V may be apart. */
  regionCountMax: 1_024,
  /** Block ids on one side of one post. At 16 tokens a block this is a prompt of a million tokens. */
  blocksPerPostMax: 65_536,
  /** Descriptors of one post before merging (blocks × regions). */
  descriptorsPerPostMax: 4_194_304,
  /** Posts that may wait or run on one agent. */
  transfersInFlightMax: 4_096,
  /** Bytes of one notification. Back ends drop or break longer ones (UCCL at 256, libfabric at 1,024). */
  notificationSizeBytesMax: 512,
  /** Notifications buffered between two deliveries; beyond it the oldest are dropped and counted. */
  notificationBacklogMax: 65_536,
  /** Peers of one agent. */
  peerCountMax: 256,
  /** Transfers past their deadline whose memory stays pinned. Beyond it new posts are refused. */
  drainingTransferCountMax: 1_024,
  /** A transfer without final status after this is reported overdue (it stays tracked). */
  transferDeadlineMs: 30_000,
  /** Bytes of one slab: what one WRITE or READ of the path `slabs` carries at most. Measured on two H200s: larger gain nothing. */
  slabSizeBytes: 16_777_216,
  slabSizeBytesMin: 4_096,
  slabSizeBytesMax: 268_435_456,
  /** Slabs that an agent has for each direction. Fewer than 3 in flight leave the link idle between them. */
  slabCount: 4,
  slabCountMax: 64,
  /**
   * `path: auto` has no slabs in host memory for blocks of this many bytes a region and more: no number of them
   * was faster by slabs (`kvferry-bench micro --paths`). On GPUs there is no such size: a descriptor costs as much as
   * the link moves in 0.3 to 1.5 MB.
   */
  slabBlockSizeBytesMax: 4_096,
  /** A lent slab whose borrower says nothing for so long is counted as suspect. */
  slabSilenceMs: 30_000,
  /** CTAs of a kernel of the path `ipc`. No GPU has half as many multiprocessors, and more CTAs would only take turns. */
  ipcCtaCountMax: 1_024,
  /** From `signalFence` to the moment that it names: no forward takes an hour. */
  fenceDelayMsMax: 3_600_000,
  /** How long a producer keeps blocks for a reader. vLLM's `kv_lease_duration`. */
  leaseDurationMs: 30_000,
  /** Margin that a reader keeps before the end of its lease, for clock rate differences. */
  leaseSafetyMarginMs: 100,
  /** Requests one connector half tracks at once. */
  requestCountMax: 8_192,
  /** Blocks out of service (architecture §6) as a share of the pool, beyond which loads are refused. */
  quarantinedBlockShareMax: 0.25,
  /** Bytes of `RequestView.promptDigest`: SHA-256. */
  promptDigestSizeBytes: 32,
  /** Bytes of one `kv_transfer_params` object as JSON. */
  handoffSizeBytesMax: 1_048_576,
} as const

assert(limits.leaseSafetyMarginMs * 10 <= limits.leaseDurationMs, 'lease margin too large')
assert(
  limits.sideChannelTimeoutMs <= limits.handshakeTimeoutMs,
  'handshake shorter than one answer',
)
assert(limits.transferDeadlineMs <= limits.leaseDurationMs, 'a transfer may outlive every lease')
assert(limits.slabCount <= limits.slabCountMax, 'more slabs than may be')
assert(limits.slabSizeBytes <= limits.slabSizeBytesMax, 'a slab is larger than it may be')
assert(limits.transferDeadlineMs <= limits.slabSilenceMs, 'a slab in use would count as suspect')
assert(limits.agentMetadataSizeBytesMax < limits.frameSizeBytesMax, 'metadata exceeds a frame')
assert(limits.idSizeBytesMax + 32 <= limits.notificationSizeBytesMax, 'id exceeds a notification')
