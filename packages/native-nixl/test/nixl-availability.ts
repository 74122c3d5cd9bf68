/**
 * Whether tests over real NIXL can run. A machine without it skips them and says why; with
 * KVFERRY_REQUIRE_NIXL=1 (CI) its absence is a failure, so that a skip can't look green.
 */
import { test } from 'vitest'
import { isNixlAvailable } from '../src/index.ts'

const availability = isNixlAvailable()

export const isNixlRequired = process.env['KVFERRY_REQUIRE_NIXL'] === '1'

/** Null: run them. */
export const reasonWithoutNixl: string | null = availability.available
  ? null
  : availability.error.message

/** Declares the tests, or one skipped (or failed) test with the reason. */
export function describeWithNixl(declare: () => void): void {
  if (reasonWithoutNixl === null) {
    declare()
    return
  }
  test(`real NIXL (skipped: ${reasonWithoutNixl})`, ({ skip }) => {
    if (isNixlRequired) throw new Error(`NIXL is required: ${reasonWithoutNixl}`)
    skip(reasonWithoutNixl)
  })
}
