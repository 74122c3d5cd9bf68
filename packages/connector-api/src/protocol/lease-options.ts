/**
 * The options of connectors whose producer keeps blocks by leases: how long a lease lasts, and how long a
 * transfer may take. No transfer may be waited for longer than its blocks are kept.
 */
import { limits } from '../index.ts'
import type { OptionFields } from './option-fields.ts'

export interface LeaseOptions {
  readonly leaseDurationMs: number
  /** Never above `leaseDurationMs`. */
  readonly transferDeadlineMs: number
}

/** ms. A lease must be long beside the margin that its reader keeps. */
export const leaseRange = { min: 10 * limits.leaseSafetyMarginMs, max: 3_600_000 } as const

/** What is wrong is noted in `fields`. */
export function readLeaseOptions(fields: OptionFields<keyof LeaseOptions>): LeaseOptions {
  const leaseDurationMs = fields.integer('leaseDurationMs', limits.leaseDurationMs, leaseRange)
  const transferDeadlineMs = fields.integer(
    'transferDeadlineMs',
    Math.min(limits.transferDeadlineMs, leaseDurationMs),
    { min: 1, max: leaseRange.max },
  )
  fields.rule({
    field: 'transferDeadlineMs',
    beside: 'leaseDurationMs',
    holds: transferDeadlineMs <= leaseDurationMs,
    remedy: `use at most leaseDurationMs (${leaseDurationMs})`,
  })
  return { leaseDurationMs, transferDeadlineMs }
}
