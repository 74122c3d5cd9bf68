/**
 * The bounds that only the pull protocol has; everything shared is in `limits` and `protocolLimits` of connector-api. Each has
 * a name, a unit and a reason, and the relations between them are asserted when this module loads.
 */
import { assert, limits } from '@kvferry/connector-api'
import { protocolLimits } from '@kvferry/connector-api/protocol'

export const pullLimits = {
  /** Releases on their way to producers. Beyond it one is dropped: the lease's end frees the blocks. */
  releasesInFlightMax: 1_024,
  /**
   * How long a producer remembers who read a lease to its end, so that a question that the notification
   * overtook is still answered rightly: two answers' worth.
   */
  completedReadRetentionMs: 2 * limits.sideChannelTimeoutMs,
  /** How long a reader waits for blocks to be staged; less than it waits for an answer. */
  stagingAnswerMs: limits.sideChannelTimeoutMs - 1_000,
  /** How long a producer polls for a READ that may be running though it has no lease. */
  stragglerTimeoutMs: 30_000,
  /** Between two questions to the producer of an overdue READ, so that it polls all the time. */
  overdueReadAskMs: 10_000,
  /**
   * How many leases long a consumer keeps blocks that it waits to load. Two engines that serve each other
   * could otherwise hold, each for the other, what both wait for.
   */
  waitingLeaseCountMax: 10,
  /** Key with which one rank of a producer signs handoffs. */
  handoffKeySizeBytes: 32,
  /** HMAC-SHA256. */
  signatureSizeBytes: 32,
  /** How long a decode engine keeps blocks for the next turn. vLLM's `decoder_kv_blocks_ttl`. */
  decoderBlocksTtlMs: 480_000,
  /** A decode engine's blocks are not read any more when their time is nearly over. */
  returnMarginMs: 5_000,
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
    protocolLimits.hostSizeBytesMax +
    protocolLimits.tpSizeMax * pullLimits.signatureSizeBytes +
    limits.promptDigestSizeBytes <=
    protocolLimits.metadataSizeBytesMax,
  'a load may never fit into a step',
)
assert(
  2 * pullLimits.overdueReadAskMs <= protocolLimits.wireUpTimeoutMs,
  'the producer of an overdue READ stops polling between two questions',
)
assert(
  pullLimits.completedReadRetentionMs >= limits.sideChannelTimeoutMs,
  'a completed read is forgotten before its question can arrive',
)
