/**
 * One request's times, by the definitions in this package's README. Pure arithmetic over a record; a
 * metric that a request doesn't have (no second token, no stream, nothing loaded) is null or empty.
 */
import type { EngineTimings, LoadTimings } from '@kvferry/reference-engine'
import type { RequestRecord } from './load-client.ts'

/**
 * Where the time to first token went: parts that touch, from the planned moment to the first token in
 * the client's hand, so that they add up to TTFT.
 */
export const breakdownParts = [
  'queue',
  'prefill',
  'handOver',
  'alloc',
  'dispatch',
  'post',
  'wire',
  'stepBoundary',
  'firstToken',
] as const
export type BreakdownPart = (typeof breakdownParts)[number]
export type Breakdown = Readonly<Partial<Record<BreakdownPart, number>>>

export interface LoadMetrics {
  readonly criticalPathMs: number
  /** The critical path without the wire: what the protocol and the threads add. */
  readonly pathLessWireMs: number
  /** Before the prefill's end where blocks left in chunks. */
  readonly firstPostMs: number
  readonly kvWaitMs: number
  readonly postUs: number
  readonly wireMs: number
  readonly bytes: number
  readonly criticalBytes: number
  readonly blockedUs: number
  readonly blockedDescriptorsUs: number
  readonly blockedCopyUs: number
  readonly descriptorsBeforeMerge: number
  readonly descriptorsAfterMerge: number
}

export interface RequestMetrics {
  readonly ttftMs: number | null
  readonly ttftFromSendMs: number | null
  readonly tpotMs: number | null
  readonly itlMs: readonly number[]
  readonly e2elMs: number
  readonly clientQueueMs: number
  readonly load: LoadMetrics | null
  readonly breakdown: Breakdown | null
}

/** A load that failed has no times that mean anything. */
function isComplete(load: LoadTimings | null | undefined): load is LoadTimings {
  return load?.outcome === 'loaded'
}

/** When the agent's thread took the first transfer up. */
const postStartOf = (load: LoadTimings): number =>
  load.postedAtMs ?? load.bindAtMs + load.handshakeMs + load.queuedUs / 1_000

/** Null when nothing was loaded, for example after a full local prefix hit or a failed load. */
function loadMetricsOf(record: RequestRecord): LoadMetrics | null {
  const load = record.decode?.load
  const prefillEndAtMs = record.routed?.prefill?.prefillEndAtMs ?? null
  if (!isComplete(load) || prefillEndAtMs === null) return null
  const criticalPathMs = load.completeAtMs - prefillEndAtMs
  return {
    criticalPathMs,
    pathLessWireMs: criticalPathMs - load.wireUs / 1_000,
    firstPostMs: postStartOf(load) - prefillEndAtMs,
    kvWaitMs: load.completeAtMs - load.allocAtMs,
    postUs: load.postUs,
    wireMs: load.wireUs / 1_000,
    bytes: load.bytes,
    criticalBytes: load.lastBytes,
    blockedUs: load.blockedUs,
    blockedDescriptorsUs: load.blockedUs - load.blockedCopyUs,
    blockedCopyUs: load.blockedCopyUs,
    descriptorsBeforeMerge: load.descriptorsBeforeMerge,
    descriptorsAfterMerge: load.descriptorsAfterMerge,
  }
}

/** The oracle computes everything in one place: three parts only. */
function breakdownAlone(
  record: RequestRecord,
  decode: EngineTimings,
  firstAtMs: number,
): Breakdown {
  const prefillEndAtMs = decode.prefillEndAtMs ?? decode.firstTokenAtMs
  return {
    queue: decode.scheduledAtMs - record.scheduledAtMs,
    prefill: prefillEndAtMs - decode.scheduledAtMs,
    firstToken: firstAtMs - prefillEndAtMs,
  }
}

function breakdownOf(record: RequestRecord, firstAtMs: number | null): Breakdown | null {
  const { decode, routed } = record
  if (!decode || firstAtMs === null) return null
  if (!routed) return breakdownAlone(record, decode, firstAtMs)
  const { prefill } = routed
  const { load, loadReadyAtMs } = decode
  if (!prefill || prefill.prefillEndAtMs === null || !isComplete(load) || loadReadyAtMs === null) {
    return null
  }
  const postStartAtMs = postStartOf(load)
  return cut(record.scheduledAtMs, [
    ['queue', prefill.scheduledAtMs],
    ['prefill', prefill.prefillEndAtMs],
    ['handOver', decode.receivedAtMs],
    ['alloc', load.allocAtMs],
    ['dispatch', postStartAtMs],
    ['post', postStartAtMs + load.postUs / 1_000],
    ['wire', load.completeAtMs],
    ['stepBoundary', loadReadyAtMs],
    ['firstToken', firstAtMs],
  ])
}

/**
 * Each part is what it added to the ones before. Where D is asked while P still computes (push), its
 * hand-over and allocation lie behind the prefill and add nothing.
 */
function cut(startAtMs: number, ends: readonly (readonly [BreakdownPart, number])[]): Breakdown {
  const parts: Partial<Record<BreakdownPart, number>> = {}
  let cursorMs = startAtMs
  for (const [part, endAtMs] of ends) {
    parts[part] = Math.max(0, endAtMs - cursorMs)
    cursorMs = Math.max(cursorMs, endAtMs)
  }
  return parts
}

/** Null for a request that failed: its times mean nothing. */
export function metricsOf(record: RequestRecord): RequestMetrics | null {
  const { planned, scheduledAtMs, sentAtMs, lastTokenAtMs, tokenAtMs, outputTokens } = record
  if (record.error !== null || sentAtMs === null || lastTokenAtMs === null) return null
  // An answer that isn't streamed has no first token that the client could see.
  const firstAtMs = planned.isStream ? (tokenAtMs[0] ?? null) : null
  const e2elMs = lastTokenAtMs - scheduledAtMs
  const ttftMs = firstAtMs === null ? null : firstAtMs - scheduledAtMs
  return {
    ttftMs,
    ttftFromSendMs: firstAtMs === null ? null : firstAtMs - sentAtMs,
    tpotMs: ttftMs === null || outputTokens < 2 ? null : (e2elMs - ttftMs) / (outputTokens - 1),
    itlMs: planned.isStream
      ? tokenAtMs.slice(1).map((atMs, i) => atMs - (tokenAtMs[i] as number))
      : [],
    e2elMs,
    clientQueueMs: sentAtMs - scheduledAtMs,
    load: loadMetricsOf(record),
    breakdown: breakdownOf(record, firstAtMs),
  }
}
