/**
 * Replays a trace through the real history, in virtual time: each request reserves and restores what is
 * stored of its prompt, and offers all its blocks when it ends. Copies take no time and move nothing, so
 * what differs between two runs is the policy alone. The writer's bounds that protect an engine (64 MiB a
 * request, 10 ms) are lifted: with them, how much is kept would depend on how fast the machine copies.
 */
import {
  silentLogger,
  silentMetrics,
  type HistoryCounters,
  type HistoryPolicyName,
} from '@kvferry/connector-api'
import { createSeededRandom, createSimClock } from '@kvferry/connector-api/testing'
import {
  historyLimits,
  historyPolicies,
  TieredHistory,
  type BlockCopies,
} from '@kvferry/kv-history'
import type { TraceRequest } from './trace-request.ts'

export interface ReplayOptions {
  readonly policy: HistoryPolicyName
  /** Blocks. */
  readonly deviceCapacity: number
  readonly hostCapacity: number
  readonly blockSizeBytes: number
  /** Keys remembered of blocks that are not stored. Never more than for twice the blocks of both tiers. */
  readonly probationKeyCountMax: number
  readonly signal: AbortSignal
  onProgress(doneShare: number): void
}

export interface Replay {
  /** Blocks that were found, of all that requests named. */
  readonly hits: number
  readonly deviceHits: number
  readonly references: number
  readonly writtenBlocks: { readonly device: number; readonly host: number }
  readonly counters: HistoryCounters
}

const instantCopies: BlockCopies = {
  copy: () => Promise.resolve(),
  reservedBytes: () => 0,
  close() {},
}

/** A copy that takes no time ends within it. */
const waitMsMax = 60_000
/** Requests between two reports of progress. */
const progressInterval = 256

export async function replayTrace(
  requests: readonly TraceRequest[],
  options: ReplayOptions,
): Promise<Replay> {
  const clock = createSimClock()
  const { deviceCapacity, hostCapacity, blockSizeBytes } = options
  const history = new TieredHistory({
    sizes: {
      blockBytes: blockSizeBytes,
      deviceBlockCapacity: deviceCapacity,
      hostBlockCapacity: hostCapacity,
    },
    policy: historyPolicies[options.policy],
    bounds: {
      ...historyLimits,
      candidateSizeBytesMax: Infinity,
      writerDeadlineMs: Infinity,
      fillChunkSizeBytesMax: Infinity,
      replaceChunkSizeBytesMax: Infinity,
      probationKeyCountMax: options.probationKeyCountMax,
    },
    copies: instantCopies,
    regionSizes: [blockSizeBytes],
    deviceMemory: 'host',
    ...{ clock, random: createSeededRandom(1), logger: silentLogger, metrics: silentMetrics },
  })
  let references = 0
  let nowMs = 0
  for (const [index, { timestampMs, blockIds }] of requests.entries()) {
    if (index % progressInterval === 0) {
      options.signal.throwIfAborted()
      options.onProgress(index / requests.length)
    }
    if (timestampMs > nowMs) await clock.advance(timestampMs - nowMs)
    nowMs = Math.max(nowMs, timestampMs)
    references += blockIds.length
    const keys = keysOf(blockIds)
    const reservation = history.reserve(keys, 0)
    if (reservation !== null) {
      const { lease, blockCount } = reservation
      await clock.wait(history.restore(lease, blockIds.slice(0, blockCount)), waitMsMax)
    }
    const ended = history.offer({ keys, blockIds })
    if (ended !== null) await clock.wait(ended, waitMsMax)
  }
  const counters = history.counters()
  await clock.wait(history.close(), waitMsMax)
  return {
    hits: counters.historyHitBlocks,
    deviceHits: counters.historyDeviceHitBlocks,
    references,
    writtenBlocks: {
      device: counters.historyDeviceWrittenBlocks,
      host: counters.historyHostWrittenBlocks,
    },
    counters,
  }
}

/** The trace's ids are already names of whole prefixes: as keys they only need their length. */
function keysOf(blockIds: Uint32Array): Uint8Array {
  const words = new Uint32Array(8 * blockIds.length)
  blockIds.forEach((id, index) => (words[8 * index] = id))
  return new Uint8Array(words.buffer)
}
