/** A gauge that is looked at in every step and set when it has changed: setting one is not free. */
import type { MetricName, Metrics } from '../index.ts'

export class ChangedGauge {
  readonly #metrics: Metrics
  readonly #name: MetricName
  #shown: number | null = null

  constructor(metrics: Metrics, name: MetricName) {
    this.#metrics = metrics
    this.#name = name
  }

  show(value: number): void {
    if (value === this.#shown) return
    this.#shown = value
    this.#metrics.set(this.#name, value)
  }
}
