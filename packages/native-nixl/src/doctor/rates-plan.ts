/** What `doctor --rates` measures, and how long each point may take. Pure. */
import { limits, type AgentPath } from '@kvferry/connector-api'

export const rateLimits = {
  /** Of the transfers of one point. There is no cancel: what would take longer isn't begun. */
  pointMs: 2_000,
  /** Of everything, starts of processes included; what is left then is not measured. */
  totalMs: 55_000,
  /** Moved first, to see how long all would take. */
  sampleSizeBytes: 4_194_304,
  /** Transfers of one point, after one to warm up: the median is the result. */
  repeatCountMax: 7,
} as const

/** A KV block of a layer as vLLM has it, one of a larger model, and one of all layers. */
export const rateBlockSizes = [4_096, 65_536, 2_097_152] as const

export interface RatePoint {
  readonly path: AgentPath
  readonly direction: 'read' | 'write'
  readonly blockBytes: number
}

export interface RateResult extends RatePoint {
  /**
   * `measured`; `cut-off`: all bytes would have taken longer than a point may, and the rate is that of the first; `failed`;
   * `skipped`: no time was left, or more blocks than a transfer can have.
   */
  readonly outcome: 'measured' | 'cut-off' | 'failed' | 'skipped'
  /** 10^9 bytes a second; null where none is known. */
  readonly gigabytesPerSecond: number | null
  /** Of one transfer. */
  readonly bytes: number
  /** From the start of each transfer to its end. */
  readonly us: readonly number[]
  /** Medians: until it was posted, and of that the time to build it; descriptors after neighbours were merged. */
  readonly postUs: number
  readonly prepareUs: number
  readonly descriptors: number
  /** Slots of 4 KiB whose digest isn't what was sent. */
  readonly wrongSlots: number
  readonly detail: string | null
}

/** Fast paths first, so that a slow one takes its time from nobody. */
const order: readonly AgentPath[] = ['ipc', 'slabs', 'descriptors']

export function planPoints(paths: readonly AgentPath[]): RatePoint[] {
  return order
    .filter((path) => paths.includes(path))
    .flatMap((path) =>
      (['write', 'read'] as const).flatMap((direction) =>
        rateBlockSizes.map((blockBytes) => ({ path, direction, blockBytes })),
      ),
    )
}

/** Why a point can't be measured at all; null: it can. */
export function whyNot({ blockBytes }: RatePoint, totalBytes: number): string | null {
  if (blockBytes * 2 > totalBytes) return 'fewer than two blocks'
  if (totalBytes / blockBytes <= limits.blocksPerPostMax) return null
  return `more than blocksPerPostMax (${limits.blocksPerPostMax}) blocks`
}

/** How many transfers of `totalBytes` fit, after one to warm up, at the rate of the sample; 0: too slow. */
export function repeatsWithin(
  sample: { readonly bytes: number; readonly us: number },
  totalBytes: number,
  limitMs: number,
): number {
  const eachMs = (sample.us * totalBytes) / sample.bytes / 1_000
  return Math.max(0, Math.min(rateLimits.repeatCountMax, Math.floor(limitMs / eachMs) - 1))
}

const nothing = { us: [], postUs: 0, prepareUs: 0, descriptors: 0, wrongSlots: 0 }

/** A point without a rate. */
export function unmeasured(
  point: RatePoint,
  outcome: 'cut-off' | 'failed' | 'skipped',
  detail: string,
): RateResult {
  return { ...point, outcome, gigabytesPerSecond: null, bytes: 0, ...nothing, detail }
}

export const median = (list: readonly number[]): number =>
  [...list].sort((a, b) => a - b)[list.length >> 1]!

/** Half of the places of a pool, in an order of their own, so that no neighbours are one. */
export function scattered(places: number, seed: number): Uint32Array {
  const ids = Array.from({ length: places }, (_, id) => id)
  let state = seed
  for (let index = places - 1; index > 0; index -= 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const other = state % (index + 1)
    ;[ids[index], ids[other]] = [ids[other]!, ids[index]!]
  }
  return Uint32Array.from(ids.slice(0, places / 2))
}
