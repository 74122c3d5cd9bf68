/**
 * Every bound of the engine, with its unit and reason. Nothing in the engine grows without one.
 */
import { assert, limits } from '@kvferry/connector-api'

export const engineLimits = {
  /** Bytes of one HTTP body. A prompt of `maxModelLenMax` tokens, escaped, beside one handoff. */
  bodySizeBytesMax: 4_194_304,
  /** Default bound of requests that are accepted and not yet answered; more get 429. */
  openRequestCountMax: 1_024,
  /** Handoffs being given back at once; each is gone after one step. */
  openReleaseCountMax: 256,
  /** How long a caller may take to send one request. */
  requestBodyTimeoutMs: 30_000,
  /** What a refused caller is told to wait. Loads change within a step or two. */
  retryAfterSeconds: 1,
  /** HTTP connections at once; more than requests, since idle ones are kept for reuse. */
  connectionCountMax: 4_096,
  /** Characters of an `X-Request-Id`. */
  requestIdLengthMax: 128,
  /** Tokens of prompt and output together. */
  maxModelLenMax: 262_144,
  blockCountMax: 1_048_576,
  blockTokensMax: 1_024,
  maxNumSeqsMax: 1_024,
  /** From the order to stop to the end of everything: requests, leases, transfers, memory. */
  shutdownDeadlineMs: 5_000,
  /** The part of it that open requests get before they are aborted; the rest is for what they leave behind. */
  shutdownRequestShare: 0.6,
  /** Of what is left then, for leases and transfers; the rest for connections and memory. */
  shutdownConnectorShare: 0.8,
  /** What each part gets to close, also when the deadline has passed. */
  closeGraceMs: 100,
  /** The core's thread is ended by force this long after its deadline. */
  terminateAfterMs: 1_000,
  /** How long the start of an engine (addon, memory, registration, listening) may take. */
  startDeadlineMs: 60_000,
  /** How long one question to the core thread (stats, metrics, debug) may take; a step is shorter. */
  coreAnswerTimeoutMs: 5_000,
  /** Questions to the core thread that may be open at once. */
  coreQuestionCountMax: 256,
  /**
   * A sleeping engine that still waits for something of its connector looks again after this, should
   * the connector have forgotten to call `requestStep`. Not a polling interval: events come first.
   */
  idleStepIntervalMs: 20,
  /**
   * The next step may start this much in the past, so that late timers don't slow the modelled device
   * down. A longer delay is a stall of the machine and stays visible.
   */
  timerLatenessCarriedMsMax: 4,
  /** Of a step, at its end: the core's thread is deaf for so long. Two of what Node's timers count. */
  threadPauseMsMax: 2,
  /** Latest observations that a distribution keeps; count, mean and maximum go over all. */
  distributionSampleCountMax: 16_384,
  /** Observations listed as `samples` in a distribution. */
  distributionSamplesListedMax: 1_000,
  /** Share of a request's tokens that each decode step digests again is 1 / this … */
  rotatingDigestShare: 64,
  /** … in groups of this many tokens (a usual block). Changing either changes every text. */
  rotatingDigestTokens: 16,
} as const

assert(engineLimits.openRequestCountMax < engineLimits.connectionCountMax, 'too few connections')
assert(
  engineLimits.openRequestCountMax <= limits.requestCountMax,
  'more requests than a connector tracks',
)
assert(limits.handoffSizeBytesMax < engineLimits.bodySizeBytesMax, 'a handoff exceeds a body')
assert(
  engineLimits.requestIdLengthMax + 32 <= limits.idSizeBytesMax,
  'request id exceeds the bound',
)
