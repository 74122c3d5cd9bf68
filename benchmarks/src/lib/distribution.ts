/**
 * The one summary of many observations used in result files: nearest-rank percentiles, so that every
 * number shown was really observed. Pure. It never averages percentiles: distributions of several
 * trials are rebuilt from their observations.
 */
import { limits } from '../limits.ts'

export interface Distribution {
  readonly count: number
  /** These are null when nothing was observed: 0 would read as "fast". */
  readonly mean: number | null
  readonly p50: number | null
  readonly p90: number | null
  readonly p95: number | null
  readonly p99: number | null
  readonly max: number | null
  /** Up to 1,000 observations, in the order they were made, evenly thinned. */
  readonly samples: readonly number[]
}

/**
 * Nearest rank: the smallest observation with at least `percent` % of all at or below it.
 * @throws RangeError when `sorted` is empty or `percent` is not in (0, 100].
 */
export function nearestRank(sorted: readonly number[], percent: number): number {
  if (!(percent > 0 && percent <= 100)) throw new RangeError(`percent out of (0, 100]: ${percent}`)
  const value = sorted[Math.ceil((percent / 100) * sorted.length) - 1]
  if (value === undefined) throw new RangeError('no observations')
  return value
}

function thin(values: readonly number[], countMax: number): number[] {
  if (values.length <= countMax) return [...values]
  return Array.from({ length: countMax }, (_, i) => {
    return values[Math.floor((i * values.length) / countMax)] as number
  })
}

/** Microsecond-level noise behind the sixth digit only makes files larger. */
const rounded = (value: number): number => Number(value.toPrecision(7))

/** @throws RangeError for a value that is not finite: a broken clock reading must not become a number. */
export function createDistribution(values: readonly number[]): Distribution {
  for (const value of values) {
    if (!Number.isFinite(value)) throw new RangeError(`not a finite observation: ${value}`)
  }
  if (values.length === 0) {
    return {
      count: 0,
      mean: null,
      p50: null,
      p90: null,
      p95: null,
      p99: null,
      max: null,
      samples: [],
    }
  }
  const sorted = [...values].sort((a, b) => a - b)
  const sum = values.reduce((total, value) => total + value, 0)
  return {
    count: values.length,
    mean: rounded(sum / values.length),
    p50: rounded(nearestRank(sorted, 50)),
    p90: rounded(nearestRank(sorted, 90)),
    p95: rounded(nearestRank(sorted, 95)),
    p99: rounded(nearestRank(sorted, 99)),
    max: rounded(sorted[sorted.length - 1] as number),
    samples: thin(values, limits.samplesMax).map(rounded),
  }
}
