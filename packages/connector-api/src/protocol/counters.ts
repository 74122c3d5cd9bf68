/**
 * Totals of one worker since it started, by name, for `getStats`. Each protocol fixes its names, so that
 * a typing error can't make a second counter. Metrics (Prometheus) are kept beside them where they have one.
 */
import type { LoadSample, StatsSnapshot } from '../index.ts'

export class Counters<Name extends string> {
  readonly #values: Record<Name, number>
  #changeCount = 0

  constructor(names: readonly Name[]) {
    this.#values = Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>
  }

  add(name: Name, amount = 1): void {
    this.#values[name] += amount
    this.#changeCount += 1
  }

  /** Grows with every change. */
  get changeCount(): number {
    return this.#changeCount
  }

  /** A copy. */
  snapshot(): Record<Name, number> {
    return { ...this.#values }
  }
}

/**
 * Totals and gauges as `getStats` shows them: asked for in every step, and told only when one changed.
 * `gauges` are read each time, so they must be cheap.
 */
export class ShownCounters<Name extends string, Gauge extends string> {
  readonly #counters: Counters<Name>
  readonly #names: readonly Gauge[]
  readonly #gauges: readonly (() => number)[]
  readonly #shown: number[]
  #shownChangeCount = -1

  constructor(counters: Counters<Name>, gauges: Readonly<Record<Gauge, () => number>>) {
    this.#counters = counters
    this.#names = Object.keys(gauges) as Gauge[]
    this.#gauges = Object.values(gauges)
    this.#shown = this.#names.map(() => 0)
  }

  /** Whether anything differs from what `take` showed last. */
  get hasChanged(): boolean {
    if (this.#counters.changeCount !== this.#shownChangeCount) return true
    for (let at = 0; at < this.#gauges.length; at++) {
      if (this.#gauges[at]!() !== this.#shown[at]) return true
    }
    return false
  }

  /** These samples with the totals since the start; null when there is neither a sample nor a change. */
  statsWith(loads: readonly LoadSample[]): StatsSnapshot | null {
    return loads.length === 0 && !this.hasChanged ? null : { loads, counters: this.take() }
  }

  take(): Record<Name | Gauge, number> {
    this.#shownChangeCount = this.#counters.changeCount
    const values: Record<string, number> = this.#counters.snapshot()
    for (let at = 0; at < this.#names.length; at++) {
      values[this.#names[at]!] = this.#shown[at] = this.#gauges[at]!()
    }
    return values as Record<Name | Gauge, number>
  }
}
