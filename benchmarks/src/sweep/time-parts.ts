/**
 * Where the time of one point went: medians of what a run of our engines knows beside the clock of its client. Pure.
 */
import type { RunEntry } from '../compare/result.ts'
import { breakdownParts, type BreakdownPart } from '../compare/request-metrics.ts'

export interface TimeParts {
  readonly criticalPathMs: number | null
  readonly pathLessWireMs: number | null
  readonly firstPostMs: number | null
  readonly wireMs: number | null
  /** Of D's engine thread, by transfer work. */
  readonly blockedUs: number | null
  /** Parts of the time to the first token; they add up request by request, their medians don't. */
  readonly breakdownMs: Readonly<Partial<Record<BreakdownPart, number>>>
  /** Busiest engine, as a share of the time. */
  readonly utilisation: number | null
}

const median = (distribution: { readonly p50: number | null } | undefined): number | null =>
  distribution?.p50 ?? null

export function timePartsOf(run: RunEntry): TimeParts {
  const parts = breakdownParts.flatMap((part): [BreakdownPart, number][] => {
    const ms = median(run.breakdown[part])
    return ms === null ? [] : [[part, ms]]
  })
  return {
    criticalPathMs: median(run.criticalPathMs),
    pathLessWireMs: median(run.pathLessWireMs),
    firstPostMs: median(run.firstPostMs),
    wireMs: median(run.wireMs),
    blockedUs: median(run.blockedUs.total),
    breakdownMs: Object.fromEntries(parts),
    utilisation: utilisationOf(run),
  }
}

function utilisationOf({ utilisation }: RunEntry): number | null {
  const shares = [utilisation.producer, utilisation.consumer].filter((share) => share !== null)
  return shares.length === 0 ? null : Math.max(...shares)
}
