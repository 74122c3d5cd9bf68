/** Medians of few observations, and how far halves of them lie apart. Pure. */
export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const value = sorted[sorted.length >> 1]
  if (value === undefined) throw new RangeError('no observations')
  return value
}

/** A-A: the medians of every second observation and of the others, as a share of the smaller. */
export function splitHalfSpread(values: readonly number[]): number {
  if (values.length < 2) return 0
  const [a, b] = [0, 1].map((half) => median(values.filter((_, at) => at % 2 === half)))
  return Math.abs(a! - b!) / Math.min(a!, b!)
}

/** 10^9 bytes a second. */
export const gigabytesPerSecond = (bytes: number, us: number): number =>
  Number((bytes / us / 1_000).toPrecision(5))

/** As many as fit the budget, within the bounds. */
export const countWithin = (
  budgetMs: number,
  eachMs: number,
  { min, max }: { readonly min: number; readonly max: number },
): number => Math.max(min, Math.min(max, Math.floor(budgetMs / eachMs)))

export const rounded = (value: number): number => Number(value.toPrecision(5))
