/** What a trace looks like, in the figures that decide what a cache can do with it. Pure. */
import { nearestRank } from '../lib/distribution.ts'
import type { TraceRequest } from './trace-request.ts'

/** Null where nothing was observed. */
export interface Quantiles {
  readonly p50: number | null
  readonly p90: number | null
  readonly p99: number | null
}

export interface TraceShape {
  readonly requests: number
  readonly durationMs: number
  /** Blocks named by all requests together, and how many different ones. */
  readonly blockReferences: number
  readonly uniqueBlocks: number
  /** Of the different ones: those that came once. */
  readonly touchedOnceShare: number
  /** Share of references that a cache without bounds would hit. */
  readonly hitRatioUnbounded: number
  /** Between two uses of one block. */
  readonly reuseGapMs: Quantiles
  readonly inputTokens: Quantiles
}

export function describeTrace(requests: readonly TraceRequest[]): TraceShape {
  const lastUseMs = new Map<number, number>()
  const touchedAgain = new Set<number>()
  const gaps: number[] = []
  let blockReferences = 0
  let hits = 0
  for (const { timestampMs, blockIds } of requests) {
    const firstMiss = blockIds.findIndex((id) => !lastUseMs.has(id))
    hits += firstMiss === -1 ? blockIds.length : firstMiss
    blockReferences += blockIds.length
    for (const id of blockIds) {
      const last = lastUseMs.get(id)
      if (last !== undefined) {
        gaps.push(timestampMs - last)
        touchedAgain.add(id)
      }
      lastUseMs.set(id, timestampMs)
    }
  }
  const uniqueBlocks = lastUseMs.size
  return {
    requests: requests.length,
    durationMs: requests.at(-1)?.timestampMs ?? 0,
    ...{ blockReferences, uniqueBlocks },
    touchedOnceShare: uniqueBlocks === 0 ? 0 : 1 - touchedAgain.size / uniqueBlocks,
    hitRatioUnbounded: blockReferences === 0 ? 0 : hits / blockReferences,
    reuseGapMs: quantiles(gaps),
    inputTokens: quantiles(requests.map(({ inputLength }) => inputLength)),
  }
}

function quantiles(values: readonly number[]): Quantiles {
  if (values.length === 0) return { p50: null, p90: null, p99: null }
  const sorted = [...values].sort((a, b) => a - b)
  const at = (percent: number) => nearestRank(sorted, percent)
  return { p50: at(50), p90: at(90), p99: at(99) }
}
