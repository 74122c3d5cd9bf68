/**
 * Whether a sweep may go on in a directory: every result file there must have been made under the same
 * conditions, or the chart of the whole would compare unlike things.
 */
import { UsageError } from '../usage-error.ts'
import { firstDifference, type SweepConditions } from './conditions.ts'
import { isPointFile, type FoundFile } from './point-file.ts'

/** @throws UsageError naming file, field, both values and the way out. */
export function assertContinuable(
  found: readonly FoundFile[],
  conditions: { readonly engine: SweepConditions; readonly url: SweepConditions },
): void {
  for (const { name, content } of found) {
    if (content === null) continue
    if (!('kvferry' in content)) {
      throw new UsageError(`${name} is no result of this command; use another --results-dir`)
    }
    // Cut short, or of an older version: made again when it is in the grid.
    if (!isPointFile(content)) continue
    const { target, conditions: theirs } = content.kvferry
    const difference = firstDifference(theirs, conditions[target])
    if (difference === null) continue
    throw new UsageError(
      `${name}: ${difference.field} was ${difference.theirs}, is ${difference.ours}; use another --results-dir, or remove the old results`,
    )
  }
}
