/**
 * The bounds that only the push protocol has; everything shared is in `limits` and `protocolLimits` of
 * connector-api. Each has a name, a unit and a reason; their relations are asserted when this module loads.
 */
import { assert, limits } from '@kvferry/connector-api'

export const pushLimits = {
  /** How long a consumer waits for its blocks from its registration on. vLLM's `push_registration_timeout`. */
  registrationTimeoutMs: 480_000,
  /**
   * How long a producer remembers a transfer that is over, so that a registration which comes too late is
   * refused at once instead of waiting for a prefill that never comes.
   */
  rendezvousRetentionMs: 60_000,
  /** A producer answers a withdrawal with "not yet" after this, so that the question never times out. */
  withdrawAnswerMs: limits.sideChannelTimeoutMs - 1_000,
  /** Between two attempts to settle a registration whose producer can't be reached. */
  doubtRetryMs: 1_000,
  /** How long a preempted request's blocks are kept for WRITEs that still read them. */
  preemptionWaitMs: 5_000,
  /** Unanswered heartbeats in a row after which a producer counts as silent: one may meet a busy moment. */
  silentHeartbeatCount: 2,
  /** How many leases long a registration lives without a sign of its consumer. */
  silentLeaseCountMax: 2,
  /** How long a consumer asks a producer to keep blocks that it has no room for. */
  waitingLeaseCountMax: 10,
  /**
   * Blocks that a producer has computed for a consumer without room are given up when none of the consumer's
   * loads from it has ended for so long: each may have what the other waits for.
   */
  roomStallMs: 10_000,
  /** How long a finished load waits for its measurements. */
  timesWaitMs: 1_000,
  /** Length of a reason that a peer gives for a failure. */
  reasonSizeBytesMax: 1_024,
  /** Messages to peers that nobody waits for, on their way at once. */
  newsInFlightMax: 1_024,
} as const

assert(
  pushLimits.withdrawAnswerMs < limits.sideChannelTimeoutMs,
  'a withdrawal times out before it is answered',
)
assert(
  pushLimits.rendezvousRetentionMs >= limits.handshakeTimeoutMs,
  'a transfer is forgotten before a registration that waits for its handshake can arrive',
)
