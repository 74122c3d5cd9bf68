/**
 * Which option someone meant who wrote another key: vLLM's name for it, a spelling within two edits, or
 * the one that begins alike. Called only on the way to an error.
 */

/** At least this much of a key must begin like an option for it to be named. */
const prefixLengthMin = 4

/** `foreignNames`: what others call an option of ours. */
export function nearestOption(
  key: string,
  known: readonly string[],
  foreignNames: ReadonlyMap<string, string>,
): string | null {
  const translated = foreignNames.get(key)
  if (translated !== undefined) return translated
  for (const edits of [0, 1, 2]) {
    const close = known.find((option) =>
      isWithinEdits(key.toLowerCase(), option.toLowerCase(), edits),
    )
    if (close !== undefined) return close
  }
  const lengths = known.map((option) => commonPrefixLength(key, option))
  const longest = Math.max(...lengths)
  return longest >= prefixLengthMin ? known[lengths.indexOf(longest)]! : null
}

/** At most `edits` insertions, deletions or replacements apart. */
function isWithinEdits(left: string, right: string, edits: number): boolean {
  if (left === right) return true
  if (edits === 0) return false
  const at = commonPrefixLength(left, right)
  const a = left.slice(at)
  const b = right.slice(at)
  return (
    isWithinEdits(a.slice(1), b, edits - 1) ||
    isWithinEdits(a, b.slice(1), edits - 1) ||
    isWithinEdits(a.slice(1), b.slice(1), edits - 1)
  )
}

function commonPrefixLength(left: string, right: string): number {
  let length = 0
  while (length < left.length && length < right.length && left[length] === right[length]) length++
  return length
}
