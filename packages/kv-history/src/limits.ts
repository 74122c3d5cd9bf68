/**
 * The bounds of history, each with its unit and reason; everything shared is in `limits` of connector-api.
 * The relations between them are asserted when this module loads.
 */
import { assert, limits } from '@kvferry/connector-api'

export const historyLimits = {
  /** Device tier unless configured: 1,365 blocks of a 0.5B model, 128 of an 8B model. */
  gpuCacheBytesDefault: 268_435_456,
  /** How long a reservation pins its blocks. Longer than any scheduler waits for room; never renewed. */
  leaseDurationMs: 120_000,
  /** Reservations open at once: each request has at most one. */
  leaseCountMax: limits.requestCountMax,
  /** Bytes of one request that its writer may copy: a long prompt keeps its beginning. */
  candidateSizeBytesMax: 64 * 1_048_576,
  /** A request's writer starts no chunk after this, so that blocks are not held for history's sake. */
  writerDeadlineMs: 10,
  /** Pause before the writer looks again whether a direction is free. */
  writerRecheckMs: 1,
  /** Bytes of one chunk into free slots. */
  fillChunkSizeBytesMax: 8 * 1_048_576,
  /** Bytes of one chunk that displaces others: each of its blocks may cost two copies. */
  replaceChunkSizeBytesMax: 2 * 1_048_576,
  chunkBlockCountMax: 32,
  /** Keys of unstored blocks that are remembered, whatever the capacity. */
  probationKeyCountMax: 8_192,
  /** Bytes of one copy of a restore: one slab's worth. */
  restoreBatchSizeBytesMax: 16 * 1_048_576,
  /** A copy without an end after this is given up on; its slots stay out of service until it ends. */
  copyDeadlineMs: limits.transferDeadlineMs,
  /** Blocks of both tiers. 16,777,216 of 16 tokens are 268 million tokens; the index has 90 B for each. */
  capacityBlockCountMax: 16_777_216,
} as const

/** The bounds of one history: the above, unless a test or an experiment says otherwise. */
export type HistoryBounds = { readonly [Name in keyof typeof historyLimits]: number }

assert(
  historyLimits.writerRecheckMs * 2 <= historyLimits.writerDeadlineMs,
  'the writer would look at the directions only once',
)
assert(
  historyLimits.copyDeadlineMs < historyLimits.leaseDurationMs,
  'a lease would end before a copy that hangs is given up on',
)
