/**
 * The bounds that only xavier has; everything shared is in `limits`, `protocolLimits` and `writeLimits` of
 * connector-api. Each has a name, a unit and a reason; their relations are asserted when this module loads.
 */
import { assert, limits } from '@kvferry/connector-api'

export const xavierLimits = {
  /** A ticket is 128 bits that nobody guesses. */
  ticketSizeBytes: 16,
  /** Of the key that this life's tickets are made with. */
  ticketKeySizeBytes: 32,
  /** How long a producer keeps the blocks of a ticket that nobody has claimed (Xavier's 120 s). */
  unclaimedTicketMs: 120_000,
  /** The same once a consumer has claimed it, since the consumer's last word (Xavier's 600 s). */
  claimedTicketMs: 600_000,
  /** How long a consumer waits for its blocks from its registration on: as long as its claim may live. */
  loadTimeoutMs: 600_000,
  /** How long a producer remembers that a load was written, for a consumer that missed the news. */
  writtenRetentionMs: 60_000,
  /** Loads that it remembers so; the oldest are forgotten first, and computed if anybody asks. */
  writtenRetentionCountMax: limits.requestCountMax,
  /**
   * How long the scheduler half relies on a reservation of history: half of the 120 s after which it ends, so that
   * it seldom ends between promise and restore.
   */
  reservationRenewMs: 60_000,
  /**
   * How long a prompt waits to hear whether the history has it: some hundred steps, in which the worker half would have
   * answered if it ran at all. Then it is computed.
   */
  answerTimeoutMs: 5_000,
  /** Prompts that may be in the history, by their first blocks: 16 MB of keys. */
  offeredPromptCountMax: 65_536,
  /** Keys of one entry of step metadata: those of a prompt of as many blocks as one transfer may have. */
  entryKeyCountMax: limits.blocksPerPostMax,
  /** Budget of the history's device tier unless configured (Xavier's 256 MiB). */
  gpuCacheBytes: 268_435_456,
  /** Withdrawals that came before their registrations, for each ticket. */
  earlyWithdrawalCountMax: 64,
} as const

assert(
  xavierLimits.unclaimedTicketMs < xavierLimits.claimedTicketMs,
  'a claim would shorten the life of its ticket',
)
assert(
  xavierLimits.writtenRetentionMs > limits.sideChannelTimeoutMs,
  'news is forgotten before its loss can be noticed',
)
