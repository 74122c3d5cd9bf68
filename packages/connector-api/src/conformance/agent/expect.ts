/** Assertions of the agent suite; plain `node:assert`, so that a clause can run without a test runner. */
import assert from 'node:assert/strict'
import { ConnectorError } from '../../errors.ts'
import type { ConnectorErrorCode } from '../../errors.ts'

export { assert }

/** How a refusal may look: a code of ConnectorError, or a class for callers' mistakes. */
export type Refusal = ConnectorErrorCode | 'TypeError' | 'RangeError'

function describe(error: unknown): string {
  if (ConnectorError.isInstance(error)) return error.code
  return error instanceof Error ? `${error.name} (${error.message})` : String(error)
}

function isRefusal(error: unknown, refusal: Refusal): boolean {
  if (refusal === 'TypeError') return error instanceof TypeError
  if (refusal === 'RangeError') return error instanceof RangeError
  return ConnectorError.isInstance(error) && error.code === refusal
}

/** `attempt` must throw, or give a promise that rejects, with one of `refusals`. */
export async function assertRefused(
  what: string,
  refusals: Refusal | readonly Refusal[],
  attempt: () => unknown,
): Promise<void> {
  const allowed: readonly Refusal[] = typeof refusals === 'string' ? [refusals] : refusals
  let error: unknown
  try {
    await attempt()
  } catch (caught) {
    error = caught
    if (allowed.some((refusal) => isRefusal(caught, refusal))) return
  }
  const got = error === undefined ? 'accepted' : describe(error)
  assert.fail(`${what}: expected ${allowed.join(' or ')}, got ${got}`)
}

/** Names the first difference instead of printing megabytes. */
export function assertSameBytes(actual: Uint8Array, expected: Uint8Array, what: string): void {
  assert.equal(actual.length, expected.length, `${what}: length`)
  if (Buffer.compare(actual, expected) === 0) return
  const first = actual.findIndex((byte, index) => byte !== expected[index])
  let count = 0
  for (let index = first; index < actual.length; index += 1) {
    if (actual[index] !== expected[index]) count += 1
  }
  const values = `${actual[first]} instead of ${expected[first]}`
  assert.fail(`${what}: ${count} bytes differ, the first at ${first}: ${values}`)
}
