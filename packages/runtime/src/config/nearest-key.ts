/**
 * Finds the known name that a misspelt one most likely meant, for error messages. Case, `_` and `-` don't
 * count as differences, so `engine_id` finds `engineId`. Pure; never guesses when nothing is close.
 */

/** Longer names are cut off: the distance of a hostile megabyte must cost nothing. */
const comparedLengthMax = 64

const fold = (key: string): string =>
  key.slice(0, comparedLengthMax).replaceAll(/[_-]/g, '').toLowerCase()

/** Edits (insert, delete, replace, swap of neighbours) that turn one string into the other. */
function editDistance(from: string, to: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1]
      let best = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (isSame ? 0 : 1),
      )
      if (
        row > 1 &&
        column > 1 &&
        from[row - 1] === to[column - 2] &&
        from[row - 2] === to[column - 1]
      ) {
        best = Math.min(best, (beforePrevious[column - 2] ?? 0) + 1)
      }
      current.push(best)
    }
    beforePrevious = previous
    previous = current
  }
  return previous[to.length] ?? 0
}

/** The closest of `known` within a third of its length in edits (at least one), or null. */
export function nearestKey(key: string, known: readonly string[]): string | null {
  let nearest: string | null = null
  let nearestDistance = Infinity
  for (const candidate of known) {
    const distance = editDistance(fold(key), fold(candidate))
    const distanceMax = Math.max(1, Math.floor(fold(candidate).length / 3))
    if (distance <= distanceMax && distance < nearestDistance) {
      nearest = candidate
      nearestDistance = distance
    }
  }
  return nearest
}
