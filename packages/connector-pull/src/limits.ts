/**
 * The bounds that only the pull protocol has; everything shared is in `limits` of connector-api. Each has
 * a name, a unit and a reason, and the relations between them are asserted when this module loads.
 */
import { assert, limits } from '@kvferry/connector-api'

export const pullLimits = {
  /** Bytes of the metadata of one step. What does not fit travels with the next step. */
  metadataSizeBytesMax: 16_777_216,
  /** Entries in the metadata of one step: a load, a lease, an announcement and an end per request. */
  metadataEntryCountMax: 4 * limits.requestCountMax,
  /** Length of a host name or address (RFC 1035). */
  hostSizeBytesMax: 255,
  /** Length of one fact of the handshake (model name, layer name). */
  factSizeBytesMax: 1_024,
  /** Releases on their way to producers. Beyond it one is dropped: the lease's end frees the blocks. */
  releasesInFlightMax: 1_024,
  /** Handshakes under way at once; further ones wait within their own time. */
  handshakesInFlightMax: 32,
  /** Pause after a failed handshake, before its half is taken off at random. */
  handshakeBackOffMinMs: 200,
  /** The longest pause: a peer that comes back is found again within it. */
  handshakeBackOffMaxMs: 10_000,
  /** However short a lease a producer names, it isn't renewed more often. */
  heartbeatIntervalMsMin: 100,
  /** Two machines' clocks run apart by this share at most: twice what a clock may be slewed by. */
  clockDriftMax: 0.001,
  /** Ids in one heartbeat. */
  heartbeatIdCountMax: 256,
  /** Bytes of the ids in one heartbeat: far below a frame, so that others are not held up. */
  heartbeatSizeBytesMax: 32_768,
  /** Load samples kept between two `getStats`; beyond it the oldest are dropped and counted. */
  loadSampleCountMax: 8_192,
  /**
   * How long a producer remembers who read a lease to its end, so that a question that the notification
   * overtook is still answered rightly: two answers' worth.
   */
  completedReadRetentionMs: 2 * limits.sideChannelTimeoutMs,
  /** How long a reader waits for blocks to be staged; less than it waits for an answer. */
  stagingAnswerMs: limits.sideChannelTimeoutMs - 1_000,
  /** How long a producer polls for a consumer that shook hands and never said that it is wired up. */
  wireUpTimeoutMs: 30_000,
  /** How long a producer polls for a READ that may be running though it has no lease. */
  stragglerTimeoutMs: 30_000,
  /** Between two questions to the producer of an overdue READ, so that it polls all the time. */
  overdueReadAskMs: 10_000,
  /**
   * How many leases long a consumer keeps blocks that it waits to load. Two engines that serve each other
   * could otherwise hold, each for the other, what both wait for.
   */
  waitingLeaseCountMax: 10,
  /** How long a closing worker waits for its readers or its own READs. */
  shutdownDrainMs: 5_000,
  /** Key with which one rank of a producer signs handoffs. */
  handoffKeySizeBytes: 32,
  /** HMAC-SHA256. */
  signatureSizeBytes: 32,
  /** TP ranks of one engine; each adds a signature to every handoff. */
  tpSizeMax: 64,
  /** Tokens of one block of a peer. */
  blockTokensMax: 65_536,
  /** How long a decode engine keeps blocks for the next turn. vLLM's `decoder_kv_blocks_ttl`. */
  decoderBlocksTtlMs: 480_000,
  /** A decode engine's blocks are not read any more when their time is nearly over. */
  returnMarginMs: 5_000,
  /** A token of an association: 128 bits. */
  tokenSizeBytes: 16,
  /** Token, version, kind and load id before the request id of a notification. */
  notificationHeaderSizeBytes: 22,
} as const

assert(
  pullLimits.notificationHeaderSizeBytes + limits.idSizeBytesMax <= limits.notificationSizeBytesMax,
  'a read-done notification exceeds the limit',
)
assert(
  // One load of the largest size, both block lists and its strings, must fit into one step.
  8 * limits.blocksPerPostMax +
    8 * limits.idSizeBytesMax +
    pullLimits.hostSizeBytesMax +
    pullLimits.tpSizeMax * pullLimits.signatureSizeBytes <=
    pullLimits.metadataSizeBytesMax,
  'a load may never fit into a step',
)
assert(
  limits.idSizeBytesMax + 2 <= pullLimits.heartbeatSizeBytesMax &&
    pullLimits.heartbeatSizeBytesMax < limits.frameSizeBytesMax,
  'a heartbeat of one id may not fit',
)
assert(
  2 * pullLimits.overdueReadAskMs <= pullLimits.wireUpTimeoutMs,
  'the producer of an overdue READ stops polling between two questions',
)
assert(
  pullLimits.completedReadRetentionMs >= limits.sideChannelTimeoutMs,
  'a completed read is forgotten before its question can arrive',
)
