/**
 * The bounds of remote writes, whichever protocol asks for them. Each has a name, a unit and a reason; their
 * relations are asserted when this module loads.
 */
import { assert, limits } from '../index.ts'

export const writeLimits = {
  /** A producer answers a withdrawal with "not yet" after this, so that the question never times out. */
  withdrawAnswerMs: limits.sideChannelTimeoutMs - 1_000,
  /** Between two questions after a registration whose producer can't be reached, or has not ended its WRITE. */
  doubtRetryMs: 1_000,
  /** Unanswered heartbeats in a row after which a producer counts as silent: one may meet a busy moment. */
  silentHeartbeatCount: 2,
  /** How long a consumer asks a producer to keep blocks that it has no room for. */
  waitingLeaseCountMax: 10,
  /**
   * Blocks that a producer has computed for a consumer without room are given up when for so long none of
   * the consumer's loads from it has ended and it was at no work: each has what the other waits for.
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
  writeLimits.withdrawAnswerMs < limits.sideChannelTimeoutMs,
  'a withdrawal times out before it is answered',
)
