/**
 * Assertions that stay on in production (engineering rule 8): a broken invariant is a bug of ours, so
 * it is thrown, never caught, and ends the process. Operating errors are ConnectorError instead.
 */
export class InvariantError extends Error {
  override readonly name = 'InvariantError'
}

/** @throws InvariantError when `condition` is false. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message)
}

/** Makes a `switch` over a union exhaustive at compile time; throws if reached at run time. */
export function assertNever(value: never): never {
  throw new InvariantError(`unreachable value: ${JSON.stringify(value)}`)
}
