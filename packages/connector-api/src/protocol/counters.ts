/**
 * Totals of one worker since it started, by name, for `getStats`. Each protocol fixes its names, so that
 * a typing error can't make a second counter. Metrics (Prometheus) are kept beside them where they have one.
 */
export class Counters<Name extends string> {
  readonly #values: Record<Name, number>

  constructor(names: readonly Name[]) {
    this.#values = Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>
  }

  add(name: Name, amount = 1): void {
    this.#values[name] += amount
  }

  /** A copy. */
  snapshot(): Record<Name, number> {
    return { ...this.#values }
  }
}
