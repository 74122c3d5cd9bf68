/**
 * Observations in the form of the result files: nearest rank, bounded memory. Count, mean and maximum go
 * over all observations, percentiles and samples over the latest `distributionSampleCountMax`.
 */
import { engineLimits } from '../limits.ts'

export interface Distribution {
  readonly count: number
  readonly mean: number
  readonly p50: number
  readonly p90: number
  readonly p95: number
  readonly p99: number
  readonly max: number
  /** Evenly chosen among the kept ones when there are more than may be listed. */
  readonly samples: readonly number[]
}

export class DistributionRecorder {
  readonly #kept = new Float64Array(engineLimits.distributionSampleCountMax)
  #count = 0
  #sum = 0
  #max = 0

  record(value: number): void {
    this.#kept[this.#count % this.#kept.length] = value
    this.#count++
    this.#sum += value
    this.#max = Math.max(this.#max, value)
  }

  snapshot(): Distribution {
    const kept = this.#kept.slice(0, Math.min(this.#count, this.#kept.length))
    const samples = listSamples(kept)
    kept.sort()
    const rank = (share: number) => kept[Math.max(0, Math.ceil(share * kept.length) - 1)] ?? 0
    return {
      count: this.#count,
      mean: this.#count === 0 ? 0 : this.#sum / this.#count,
      p50: rank(0.5),
      p90: rank(0.9),
      p95: rank(0.95),
      p99: rank(0.99),
      max: this.#max,
      samples,
    }
  }
}

function listSamples(kept: Float64Array): number[] {
  const stride = Math.max(1, Math.ceil(kept.length / engineLimits.distributionSamplesListedMax))
  return Array.from(kept.filter((_, index) => index % stride === 0))
}
