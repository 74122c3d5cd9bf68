/**
 * The points of a sweep and the names of their result files, which are those of the scripts that vLLM's
 * users have: `<mode>_qps<q>_in<in>_out<out>_iter<i>.json`. Pure.
 */
import { safeName } from '../lib/safe-name.ts'

export interface Grid {
  /** Mean arrivals a second. */
  readonly qps: readonly number[]
  readonly inputTokens: readonly number[]
  readonly outputTokens: readonly number[]
}

export interface GridPoint {
  readonly qps: number
  readonly inputTokens: number
  readonly outputTokens: number
  /** From 1. */
  readonly iteration: number
}

/** Whole rounds over the grid, so that a sweep cut short has each point once before any twice. */
export function pointsOf(grid: Grid, iterations: number): GridPoint[] {
  const points: GridPoint[] = []
  for (let iteration = 1; iteration <= iterations; iteration++) {
    for (const outputTokens of grid.outputTokens) {
      for (const inputTokens of grid.inputTokens) {
        for (const qps of grid.qps) points.push({ qps, inputTokens, outputTokens, iteration })
      }
    }
  }
  return points
}

/** Without the iteration: the same for all repetitions of a point. */
export const pointKey = ({
  qps,
  inputTokens,
  outputTokens,
}: Omit<GridPoint, 'iteration'>): string => `qps${qps}_in${inputTokens}_out${outputTokens}`

/** Without extension: `.json` and `.log` follow. */
export const pointName = (label: string, point: GridPoint): string =>
  `${safeName(label)}_${pointKey(point)}_iter${point.iteration}`

const namePattern = /^(.+)_qps(\d+(?:\.\d+)?)_in(\d+)_out(\d+)_iter(\d+)\.json$/

/** Null for a file that is no point of a sweep. */
export function parsePointName(name: string): { mode: string; point: GridPoint } | null {
  const [, mode, qps, inputTokens, outputTokens, iteration] = namePattern.exec(name) ?? []
  if (mode === undefined) return null
  return {
    mode,
    point: {
      qps: Number(qps),
      inputTokens: Number(inputTokens),
      outputTokens: Number(outputTokens),
      iteration: Number(iteration),
    },
  }
}
