/**
 * What has to be the same for two result files to stand in one chart: grid, load, engine, seed and where
 * it was measured. Written into each file; a sweep goes on only in a directory whose files agree. Pure.
 */
import type { Environment } from '../lib/environment.ts'
import { omit } from '../lib/omit.ts'
import type { EngineShape } from '../compare/presets.ts'
import type { Grid } from './grid.ts'

export interface SweepConditions {
  readonly seed: number
  readonly grid: Grid
  readonly requests: number
  readonly warmUp: number
  readonly prefixCaching: 'on' | 'off'
  /** Null: `nixl` or `memory` don't apply, the servers were given by URL. */
  readonly agent: 'nixl' | 'memory' | null
  /** The modelled engine; null for servers given by URL. Where hooks ran is in each run. */
  readonly engine: Omit<EngineShape, 'hooks'> | null
  readonly environment: Omit<Environment, 'transports' | 'seed'>
}

export interface Difference {
  /** Such as `grid.qps`. */
  readonly field: string
  readonly theirs: string
  readonly ours: string
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function compareAt(field: string, theirs: unknown, ours: unknown): Difference | null {
  if (isRecord(theirs) && isRecord(ours)) {
    for (const key of new Set([...Object.keys(theirs), ...Object.keys(ours)])) {
      const path = field === '' ? key : `${field}.${key}`
      const difference = compareAt(path, theirs[key], ours[key])
      if (difference) return difference
    }
    return null
  }
  const [theirText, ourText] = [theirs, ours].map((value) => JSON.stringify(value) ?? 'absent')
  if (theirText === ourText) return null
  return { field, theirs: theirText as string, ours: ourText as string }
}

/** The first field that differs, null where all agree. */
export function firstDifference(theirs: SweepConditions, ours: SweepConditions): Difference | null {
  const isSameKind = (theirs.engine === null) === (ours.engine === null)
  // What only one kind of target knows is no difference where the other has nothing to say.
  const known = (conditions: SweepConditions): object =>
    isSameKind
      ? conditions
      : {
          ...omit(conditions, 'agent', 'engine'),
          environment: omit(conditions.environment, 'nixl', 'ucx', 'deviceTier'),
        }
  return compareAt('', known(theirs), known(ours))
}
