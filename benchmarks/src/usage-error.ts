/** What the user typed can't be done: one line on stderr, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
