/**
 * Every bound and every deadline of the router, with its reason. Deadlines may be overridden by
 * configuration (`deadlines:`), bounds may not. Read by all of the router; relations between them are
 * asserted when this module loads.
 */
import { assert, limits as protocolLimits } from '@kvferry/connector-api'

export const routerLimits = {
  /** Bytes of one client request. A prompt of a million characters fits. */
  requestSizeBytesMax: 4 * 1_048_576,
  /** Requests in progress at once; one more is refused with 503. */
  activeRequestCountMax: 1_024,
  /** Open connections from clients. */
  clientConnectionCountMax: 4_096,
  /** Connections to one engine; a request beyond that waits for one within its leg's deadline. */
  connectionsPerEngineMax: 512,
  /** Engines per role. */
  engineCountPerRoleMax: 64,
  /** Characters of one X-Request-Id that is taken over; engines make their own ids of it. */
  requestIdLengthMax: 128,
  /** Bytes of P's answer: one token of text around the handoff. */
  prefillAnswerSizeBytesMax: protocolLimits.handoffSizeBytesMax + 1_048_576,
  /** Bytes of an answer that is buffered before it is passed on: not streamed, or an error. */
  bufferedAnswerSizeBytesMax: 16 * 1_048_576,
  /** Bytes of an engine's peer description or model list. */
  descriptionSizeBytesMax: 65_536,
  /**
   * Bytes of an unfinished SSE event held back, so that a stream that breaks never ends inside one, and
   * one with `kv_transfer_params` is seen whole.
   */
  heldEventSizeBytesMax: protocolLimits.handoffSizeBytesMax + 1_048_576,
  /**
   * Handoffs being given back, with those that wait for another attempt: as many as requests that may have left
   * one. Beyond it one is left to the end of its lease.
   */
  releasesOpenMax: 1_024,
  /** Attempts at giving one back. */
  releaseAttemptCountMax: 16,
  /** Before the second attempt; doubled with each further one up to `releaseRetryMsMax`. */
  releaseRetryMs: 100,
  /** An engine that was restarted is soon seen to be up. */
  releaseRetryMsMax: 2_000,
  /** All attempts together: later there is little left to gain, since a lease ends by itself. */
  releaseDeadlineMs: 15_000,
  /** Connections to one engine for giving back: apart, so that no client's request waits behind. */
  releaseConnectionsPerEngineMax: 8,
  /** Looks in a row that may be late before an engine that showed no other sign of life is down. */
  lateLookCountMax: 2,
  /** What a client is told to wait when no engine can take its request. */
  retryAfterSeconds: 1,
  /** Bytes of the `x-kvferry-timings` header; Node refuses 16 KiB of headers in all. */
  timingsHeaderSizeBytesMax: 8_192,
} as const

export interface Deadlines {
  /** TCP connection to an engine. */
  readonly connectMs: number
  /** Request sent to P → its whole answer. Includes P's queue and the prefill itself. */
  readonly prefillAnswerMs: number
  /** Request sent to D → first byte of its stream. An answer that is not streamed has `totalMs` instead. */
  readonly decodeFirstByteMs: number
  /** Between two chunks of D's stream. */
  readonly chunkIdleMs: number
  /** A client that does not read what is written to it. */
  readonly clientStallMs: number
  /** A client that does not finish sending its request. */
  readonly clientRequestMs: number
  /** The whole request. */
  readonly totalMs: number
  /** One poll of an engine's description. */
  readonly pollMs: number
  /** From the order to stop until requests that still run are ended. */
  readonly drainMs: number
}

export const defaultDeadlines: Deadlines = {
  connectMs: 2_000,
  prefillAnswerMs: 120_000,
  decodeFirstByteMs: 120_000,
  chunkIdleMs: 120_000,
  clientStallMs: 60_000,
  clientRequestMs: 60_000,
  totalMs: 1_800_000,
  pollMs: 2_000,
  drainMs: 30_000,
}

export interface PollIntervals {
  /** Between two looks at an engine that is up: bounds how long a new incarnation stays unnoticed. */
  readonly upMs: number
  /** After the first failure; doubled with each further one up to `downMaxMs`. */
  readonly downMs: number
  readonly downMaxMs: number
}

export const defaultPollIntervals: PollIntervals = { upMs: 2_000, downMs: 100, downMaxMs: 2_000 }

assert(
  routerLimits.connectionsPerEngineMax <= routerLimits.activeRequestCountMax,
  'more connections to an engine than requests that could use them',
)
assert(
  routerLimits.releaseDeadlineMs < protocolLimits.leaseDurationMs,
  'a handoff is still being given back when its lease has ended',
)
assert(
  defaultDeadlines.prefillAnswerMs + defaultDeadlines.decodeFirstByteMs < defaultDeadlines.totalMs,
  'the deadlines of the legs do not fit into the total',
)
